import fc from 'fast-check';
import type { Engine, Row, RowResult, RunOptions, RunStats } from '../../../src/index.js';
import { schedules } from '../../support/arbitraryRuns.js';

export interface Generated {
  readonly results: readonly RowResult[];
  readonly stats: RunStats | undefined;
}

/** All results of rows, with log-probabilities and to their full lengths, and the run's statistics. */
export async function generated(engine: Engine, rows: readonly Row[], run: RunOptions = {}): Promise<Generated> {
  const results: RowResult[] = [];
  let stats: RunStats | undefined;
  const onStats = (final: RunStats): void => void (stats = final);
  for await (const row of engine.generate(rows, { logprobs: 1, ignoreEos: true, ...run, onStats })) results.push(row);
  return { results, stats };
}

/** Seven rows of up to so many tokens, in steps, some sampled. */
export function unequalRows(step: number, longest: number): readonly Row[] {
  return Array.from({ length: 7 }, (_, i) => ({
    id: i,
    tokens: Array.from({ length: 1 + ((i * step) % longest) }, (__, j) => (i * 31 + j * 17 + 3) % 120),
    maxNewTokens: 2 + ((i * 11) % 11),
    ...(i % 3 === 1 && { temperature: 0.8, topP: 0.9, seed: i }),
  }));
}

/** What decides in which company a row is computed: the block, the schedule, and the composition of stages. */
export const COMPANY = {
  batchSize: fc.integer({ min: 1, max: 6 }),
  batches: fc.integer({ min: 1, max: 3 }),
  extra: fc.integer({ min: 0, max: 60 }),
  // Of rows that are longer than was planned a buffer holds but some of a square's.
  rowTokens: fc.constantFrom(16, 512),
  window: fc.integer({ min: 1, max: 12 }),
  schedule: schedules,
  composition: fc.nat(),
  aheads: fc.record({ weights: fc.nat(2), cache: fc.nat(2), activations: fc.nat(2) }),
};
