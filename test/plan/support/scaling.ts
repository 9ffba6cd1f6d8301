import { readFileSync } from 'node:fs';
import type { PipelineLink, PipelineMachine } from '../../../src/plan/pipeline/Machines.js';
import type { HardwareProfile } from '../../../src/plan/HardwareProfile.js';

/** A policy as published, and what it made. */
export interface PublishedRun {
  readonly batchSize: number;
  readonly batches: number;
  readonly percent: readonly number[];
  readonly generation: number;
  readonly decoding: number;
}

/** What the papers say of several GPUs. */
export const SCALING = JSON.parse(
  readFileSync(new URL('../../../bench/papers/scaling.json', import.meta.url), 'utf8'),
) as {
  readonly flexgen: {
    readonly promptTokens: number;
    readonly newTokens: number;
    readonly machines: number;
    readonly microBatches: number;
    readonly link: PipelineLink;
    readonly cases: readonly {
      readonly model: string;
      readonly pinnedWeights: boolean;
      readonly one: PublishedRun;
      readonly four: PublishedRun;
    }[];
  };
  readonly lmOffload: {
    readonly promptTokens: number;
    readonly newTokens: number;
    readonly models: readonly string[];
    readonly gpus: readonly number[];
    /** Rows of a GPU: ours, as the paper's are in a figure alone. */
    readonly batchSize: number;
    readonly batches: number;
    readonly link: PipelineLink;
    /** LM-Offload's throughput over FlexGen's, over all models and numbers of GPUs. */
    readonly gain: { readonly least: number; readonly mean: number; readonly most: number };
    /** Of the difference between the two, at most, from one GPU to four. */
    readonly differenceGrowth: number;
  };
};

/** Machines that are alike. */
export function alike(hardware: HardwareProfile, count: number, link: PipelineLink): PipelineMachine[] {
  return Array.from({ length: count }, (_, index) => ({ name: `machine ${index + 1}`, hardware, link }));
}
