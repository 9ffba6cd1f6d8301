import type { EngineOptions } from '../../EngineOptions.js';
import { SMALLER_SQUARES } from '../../plan/search/choosePolicy.js';
import type { EnginePlan } from './EnginePlan.js';
import type { Plan } from './planEngine.js';
import type { Block } from './settings.js';

const LEAST_SQUARE = 16;

/**
 * The options of an engine whose memory does not hold the block that was planned, block by block down to a single row;
 * what the caller has said stays. After blocks come the other means that a search may take: the cache on disk, and the
 * compression that was left to it.
 * @param planned what a plan has made of them
 * @param given what the caller says, by options and policy
 * @param searches whether a plan is the search's business, not the defaults
 * @param squares tokens of a square, in the order in which they are tried
 */
export function* smallerBlocks(
  planned: EngineOptions,
  given: EngineOptions,
  searches: boolean,
  squares: readonly number[] = SMALLER_SQUARES,
): Generator<EngineOptions> {
  yield planned;
  const { batchSize, batches, tokensPerSquare, compressWeights, compressCache } = given;
  if (given.layers !== undefined || given.tensorParallel !== undefined) {
    // Engines that share a model's layers have to agree on their batches; of these they use as many as all have.
    if (batches === undefined)
      for (let fewer = (planned.batches ?? 1) - 1; fewer >= 1; fewer--) yield { ...planned, batches: fewer };
    return;
  }
  const chosen = {
    ...(compressWeights === 'auto' && { compressWeights: 'none' as const }),
    ...(compressCache === 'auto' && { compressCache: 'none' as const }),
  };
  let smaller: EngineOptions = { ...given, ...chosen };
  yield smaller;
  const least = Math.max(batchSize ?? 1, LEAST_SQUARE);
  for (const square of tokensPerSquare === undefined ? squares : []) {
    if (square > least) yield (smaller = { ...smaller, tokensPerSquare: square });
  }
  if (tokensPerSquare === undefined) yield (smaller = { ...smaller, tokensPerSquare: least });
  if (batchSize === undefined || batches === undefined)
    yield (smaller = { ...smaller, batchSize: batchSize ?? 1, batches: batches ?? 1 });
  if (!searches) return;
  const placed = given.weights !== undefined || given.cache !== undefined || given.activations !== undefined;
  if (!placed && given.gpuMemory === undefined) yield (smaller = { ...smaller, cache: { cpu: 0, disk: 1 } });
  if (Object.keys(chosen).length > 0) {
    yield {
      ...smaller,
      ...(compressWeights === 'auto' && { compressWeights: '4bit' }),
      ...(compressCache === 'auto' && { compressCache: '4bit' }),
    };
  }
}

/** Plans for a smaller block, whose spill is nothing to give advice by. */
export function smallerPlan(
  plan: Plan,
  options: EngineOptions,
  { slots: batches, rowsPerSlot: batchSize, tokensPerSquare }: Block,
): Plan {
  const { origin, workload, notes } = plan.report;
  const report: EnginePlan = {
    origin: origin === 'policy' ? 'policy' : 'default',
    ...(workload && { workload }),
    ...(notes && { notes }),
    smallerBlock: { batchSize, batches, tokensPerSquare },
  };
  return { ...plan, report, options, streams: false };
}
