import { pageSweepsOf } from './memory/AdmissionPace.js';
import { placePages, type CacheRules } from './memory/rowPlacement.js';
import type { PlacementShares } from './policy/Placement.js';
import type { PlanRequest } from './policy/PlanRequest.js';
import { SCHEDULE_NAMES, type BlockChoice, type Policy, type ScheduleName } from './policy/Policy.js';
import { predict, type Prediction } from './policy/predict.js';
import type { Workload } from './policy/Workload.js';

/** What the cost model says of a run that has been: the object `predicted` of `--stats`. */
export interface PredictedRun extends Prediction {
  /** The rows as they really were, on average: what the figures beside are for. */
  readonly workload: Workload;
  /** What was expected before the run began, and for which rows; only where it was planned. */
  readonly planned?: { readonly workload: Workload; readonly tokensPerSecond: number };
}

/** Rows and tokens of a run. */
export interface RunTotals {
  readonly rows: number;
  readonly promptTokens: number;
  readonly newTokens: number;
}

/** Pages of an engine's KV cache in memory and on its GPU, and what of a row's pages belongs there. */
export interface CachePages {
  readonly pages: number;
  readonly gpuPages?: number | undefined;
  readonly rules: CacheRules;
}

/** Rows that the memory for the cache holds beside each other at their full length, 1 at least. Pure. */
export function rowsInMemory({ pages, gpuPages = 0, rules }: CachePages, { promptTokens, newTokens }: Pick<Workload, 'promptTokens' | 'newTokens'>): number {
  const { gpu, memory } = placePages(promptTokens + newTokens, rules);
  const rows = Math.min(memory > 0 ? pages / memory : Infinity, gpu > 0 ? gpuPages / gpu : Infinity);
  return Math.max(1, Math.floor(rows));
}

/** Rows a sweep that a diagonal block lets in where not all of its places have memory at full length: as `AdmissionPace` does. Pure. */
export function admittedPerSweep({ pages, rules }: Pick<CachePages, 'pages' | 'rules'>, { promptTokens, newTokens }: Pick<Workload, 'promptTokens' | 'newTokens'>): number {
  const positions = promptTokens + newTokens - 1;
  return pages / pageSweepsOf({ promptTokens, positions }, placePages(positions, rules), rules.pageTokens).memory;
}

/** Schedules by the names that they give themselves. */
export function scheduleNamed(name: string): ScheduleName | undefined {
  return SCHEDULE_NAMES.find((each) => each === name);
}

/**
 * Predicts a run by its policy and the rows that came, so that the model can be held to account. Pure.
 * @param cache where it has no room for all of a block's places, fewer rows share a pass, or, in a diagonal block, rows come in one by one
 * @returns undefined for schedules that the model does not know, and where nothing was generated
 */
export function predictRun(
  request: PlanRequest,
  block: Omit<BlockChoice, 'schedule'> & PlacementShares,
  schedule: string,
  { rows, promptTokens, newTokens }: RunTotals,
  cache?: CachePages,
): PredictedRun | undefined {
  const name = scheduleNamed(schedule);
  if (name === undefined || rows < 1 || newTokens < 1) return undefined;
  const { contextTokens } = request.shape;
  const answer = Math.min(contextTokens, Math.max(1, Math.round(newTokens / rows)));
  const workload = { promptTokens: Math.max(1, Math.min(Math.round(promptTokens / rows), contextTokens + 1 - answer)), newTokens: answer, rows };
  const fitting = cache ? rowsInMemory(cache, workload) : Infinity;
  // Of a cache on three tiers the model knows shares alone.
  const shared = cache?.gpuPages === undefined ? cache : undefined;
  const paced = name === 'diagonal' && shared !== undefined && fitting < Math.min(rows, block.batchSize * block.batches);
  const policy: Policy = { ...block, schedule: name, batchSize: paced ? block.batchSize : Math.min(block.batchSize, Math.ceil(fitting / block.batches)) };
  const asItCame = { ...workload, cachePages: shared?.pages, ...(paced && { admittedPerSweep: admittedPerSweep(shared, workload) }) };
  return { ...predict({ ...request, workload: asItCame }, policy), workload };
}
