import type { EngineOptions } from '../../EngineOptions.js';

/**
 * Tokens of a square where memory is scarce: prompts take more passes, and all that is computed for a square less
 * memory.
 */
const SMALLER_SQUARES = [128, 48];
const LEAST_SQUARE = 16;

/**
 * The options of an engine whose memory does not hold the block that was planned, block by block down to a single row;
 * what the caller has said stays. Behind blocks come the other means that a search may take: the cache on disk, and the
 * compression that was left to it.
 * @param planned what a plan has made of them
 * @param given what the caller says, by options and policy
 * @param searches whether a plan is the search's business, not the defaults
 */
export function* smallerBlocks(
  planned: EngineOptions,
  given: EngineOptions,
  searches: boolean,
): Generator<EngineOptions> {
  yield planned;
  // Engines that share a model's layers have to agree on their blocks.
  if (given.layers !== undefined) return;
  const { batchSize, batches, tokensPerSquare, compressWeights, compressCache } = given;
  const chosen = {
    ...(compressWeights === 'auto' && { compressWeights: 'none' as const }),
    ...(compressCache === 'auto' && { compressCache: 'none' as const }),
  };
  let smaller: EngineOptions = { ...given, ...chosen };
  yield smaller;
  const least = Math.max(batchSize ?? 1, LEAST_SQUARE);
  for (const square of tokensPerSquare === undefined ? SMALLER_SQUARES : []) {
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
