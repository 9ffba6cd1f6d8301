import { readFileSync } from 'node:fs';
import { parseChip, type ChipProfile } from '../../../src/plan/partitioning/ChipProfile.js';
import type { AttentionSharding, LayoutName, WeightFormat } from '../../../src/plan/partitioning/Partitioning.js';
import type { PhaseName } from '../../../src/plan/partitioning/predictPhase.js';

/** One of the package's chips. */
export function builtInChip(name: string): ChipProfile {
  return parseChip(
    JSON.parse(readFileSync(new URL(`../../../hardware/${name}.chip.json`, import.meta.url), 'utf8')),
    name,
  );
}

/** One of the eight configurations of tables 2 and 3. */
export interface PopeConfiguration {
  readonly model: string;
  readonly phase: PhaseName;
  readonly chips: number;
  readonly batchSize: number;
  readonly layout: LayoutName;
  readonly attention: AttentionSharding;
  readonly weights: WeightFormat;
  readonly mfu: number;
  readonly seconds: number;
}

/** What Pope et al. measured. */
export const POPE = JSON.parse(readFileSync(new URL('../../../bench/papers/pope.json', import.meta.url), 'utf8')) as {
  readonly contexts: readonly { readonly variant: string; readonly batch128: number; readonly batch512: number }[];
  readonly configurations: readonly PopeConfiguration[];
  /** Rows of batch, milliseconds of prefill, and of generating. */
  readonly benchmarks: readonly {
    readonly table: string;
    readonly promptTokens: number;
    readonly newTokens: number;
    readonly rows: readonly (readonly [number, number, number])[];
  }[];
};
