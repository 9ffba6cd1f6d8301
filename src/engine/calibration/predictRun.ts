import { pageSweepsOf } from '../memory/AdmissionPace.js';
import { placePages, type CacheRules } from '../memory/placePages.js';
import type { PlacementShares } from '../../plan/Placement.js';
import type { PlanRequest } from '../../plan/PlanRequest.js';
import { refillsAtOnce, type BlockChoice, type Policy } from '../../plan/Policy.js';
import { predict, type Prediction } from '../../plan/predict.js';
import type { Workload } from '../../plan/Workload.js';
import { scheduleNamed } from '../schedules/blockSchedules.js';

/** The cost model's figures for a run that has been: the object `predicted` of `--stats`. */
export interface PredictedRun extends Prediction {
  /** The rows as they really were, on average: what the figures beside are for. */
  readonly workload: Workload;
  /** The speed expected before the run began, and for which rows; only where the run was planned. */
  readonly planned?: { readonly workload: Workload; readonly tokensPerSecond: number };
}

/** Rows and tokens of a run. */
export interface RunTotals {
  readonly rows: number;
  readonly promptTokens: number;
  /** The prompt tokens that were not computed because others were. Default 0. */
  readonly promptTokensSaved?: number | undefined;
  readonly newTokens: number;
}

/** Pages of an engine's KV cache in memory and on its GPU, and what of a row's pages belongs there. */
export interface CachePages {
  readonly pages: number;
  readonly gpuPages?: number | undefined;
  readonly rules: CacheRules;
}

/** Rows that the memory for the cache holds beside each other at their full length, 1 at least. Pure. */
export function rowsInMemory(
  { pages, gpuPages = 0, rules }: CachePages,
  {
    promptTokens,
    newTokens,
    sharedPrefixTokens = 0,
  }: Pick<Workload, 'promptTokens' | 'newTokens' | 'sharedPrefixTokens'>,
): number {
  const { gpu, memory } = placePages(promptTokens + newTokens, rules, promptTokens).pages;
  const shared = gpuPages > 0 ? 0 : Math.floor(sharedPrefixTokens / rules.pageTokens);
  const rows = Math.min(
    memory > 0 ? (pages - shared) / Math.max(1, memory - shared) : Infinity,
    gpu > 0 ? gpuPages / gpu : Infinity,
  );
  return Math.max(1, Math.floor(rows));
}

/**
 * Rows a sweep that a diagonal block lets in where not all of its places have memory at full length: as `AdmissionPace`
 * does. Pure.
 */
export function admittedPerSweep(
  { pages, rules }: Pick<CachePages, 'pages' | 'rules'>,
  {
    promptTokens,
    newTokens,
    sharedPrefixTokens = 0,
  }: Pick<Workload, 'promptTokens' | 'newTokens' | 'sharedPrefixTokens'>,
): number {
  // Of what rows share whole pages are nobody's own.
  const shared = Math.floor(sharedPrefixTokens / rules.pageTokens);
  const prompt = promptTokens - shared * rules.pageTokens;
  const positions = prompt + newTokens - 1;
  return (
    Math.max(1, pages - shared) /
    pageSweepsOf({ promptTokens: prompt, positions }, placePages(positions, rules, prompt), rules.pageTokens).memory
  );
}

/** As many pages for rows that keep all of theirs in every layer, which is what the model counts. Pure. */
function pagesOfAllLayers({ pages, rules }: CachePages, { promptTokens, newTokens }: Workload): number {
  const positions = promptTokens + newTokens;
  const held = placePages(positions, rules, promptTokens).pages.memory;
  return Math.floor((pages * placePages(positions, { ...rules, groups: undefined }).pages.memory) / held);
}

/**
 * Predicts a run by its policy and the rows that came, so that the model can be held to account. Pure.
 * @param cache where it has no room for all of a block's places, fewer rows share a pass, or, in a diagonal block, rows
 * come in one by one
 * @returns undefined for schedules that the model does not know, and where nothing was generated
 */
export function predictRun(
  request: PlanRequest,
  block: Omit<BlockChoice, 'schedule'> & PlacementShares,
  schedule: string,
  { rows, promptTokens, promptTokensSaved = 0, newTokens }: RunTotals,
  cache?: CachePages,
): PredictedRun | undefined {
  const name = scheduleNamed(schedule);
  if (name === undefined || rows < 1 || newTokens < 1) return undefined;
  const { contextTokens } = request.shape;
  const answer = Math.min(contextTokens, Math.max(1, Math.round(newTokens / rows)));
  const prompt = Math.max(1, Math.min(Math.round(promptTokens / rows), contextTokens + 1 - answer));
  // One row computes what the others share; of prompts of a tree, so much on average.
  const sharedPrefixTokens =
    rows > 1 ? Math.max(0, Math.min(prompt - 1, Math.round(promptTokensSaved / (rows - 1)))) : 0;
  const workload = {
    promptTokens: prompt,
    newTokens: answer,
    rows,
    ...(sharedPrefixTokens > 0 && { sharedPrefixTokens }),
  };
  const fitting = cache ? rowsInMemory(cache, workload) : Infinity;
  // Of a cache on three tiers the model knows shares alone.
  const shared = cache?.gpuPages === undefined ? cache : undefined;
  const paced =
    refillsAtOnce({ schedule: name }) &&
    shared !== undefined &&
    fitting < Math.min(rows, block.batchSize * block.batches);
  const policy: Policy = {
    ...block,
    schedule: name,
    batchSize: paced ? block.batchSize : Math.min(block.batchSize, Math.ceil(fitting / block.batches)),
  };
  const actualWorkload = {
    ...workload,
    cachePages: shared && pagesOfAllLayers(shared, workload),
    ...(paced && { admittedPerSweep: admittedPerSweep(shared, workload) }),
  };
  return { ...predict({ ...request, workload: actualWorkload }, policy), workload };
}
