// The runs of the policy benchmark: models, blocks, lengths, caps, placements, compression.

const onDisk = (disk) => ({ gpu: 0, cpu: 1 - disk, disk });

/** A policy as `Engine.open` takes it; what is left out is all in memory, not compressed, diagonal. */
export function policyOf({
  schedule = 'diagonal',
  batchSize,
  batches = 1,
  weights,
  cache = 0,
  activations = 0,
  compressCache = 'none',
  compressWeights = 'none',
}) {
  return {
    schedule,
    batchSize,
    batches,
    compressCache,
    compressWeights,
    cpuAttention: true,
    weights: onDisk(weights ?? 0),
    cache: onDisk(cache),
    activations: onDisk(activations),
  };
}

/**
 * @typedef {{name: string, block: object, promptTokens: number, maxNewTokens: number, capShare?: number}} Case
 * `capShare`: memory for weights, as a share of the model's file; the policy leaves the weights open then
 */

/** Runs of a model that is small enough for hundreds of rows. @type {Case[]} */
const SMALL = [
  { name: '64 rows', block: { batchSize: 64 }, promptTokens: 64, maxNewTokens: 64 },
  { name: '8 rows', block: { batchSize: 8 }, promptTokens: 64, maxNewTokens: 64 },
  { name: '1 row', block: { batchSize: 1 }, promptTokens: 64, maxNewTokens: 64 },
  { name: '4 x 64 rows', block: { batchSize: 64, batches: 4 }, promptTokens: 32, maxNewTokens: 96 },
  { name: 'long prompts', block: { batchSize: 32 }, promptTokens: 768, maxNewTokens: 32 },
  { name: 'long answers, zigzag', block: { batchSize: 48, schedule: 'zigzag' }, promptTokens: 16, maxNewTokens: 384 },
  { name: '4-bit cache', block: { batchSize: 64, compressCache: '4bit' }, promptTokens: 256, maxNewTokens: 64 },
  { name: 'cache half on disk', block: { batchSize: 32, batches: 2, cache: 0.5 }, promptTokens: 256, maxNewTokens: 64 },
  { name: 'weights from disk', block: { batchSize: 64, weights: 0.8 }, promptTokens: 64, maxNewTokens: 64 },
  { name: 'under a quarter', block: { batchSize: 32, batches: 2 }, promptTokens: 64, maxNewTokens: 64, capShare: 0.25 },
];

/** Runs of models of one to seven billion weights. @type {Case[]} */
const LARGE = [
  { name: '32 rows', block: { batchSize: 32 }, promptTokens: 32, maxNewTokens: 32 },
  { name: '4 rows', block: { batchSize: 4 }, promptTokens: 32, maxNewTokens: 16 },
  { name: 'long prompts', block: { batchSize: 8 }, promptTokens: 384, maxNewTokens: 16 },
  {
    name: 'weights half on disk',
    block: { batchSize: 16, batches: 2, weights: 0.5 },
    promptTokens: 32,
    maxNewTokens: 16,
  },
  { name: 'under a quarter', block: { batchSize: 32 }, promptTokens: 32, maxNewTokens: 16, capShare: 0.25 },
  {
    name: 'cache on disk',
    block: { batchSize: 16, batches: 2, cache: 1, compressCache: '4bit' },
    promptTokens: 128,
    maxNewTokens: 16,
  },
];

/** A model beyond this many bytes is large. */
const LARGE_BYTES = 300e6;

/** @returns {Case[]} */
export function casesOf(modelBytes) {
  return modelBytes > LARGE_BYTES ? LARGE : SMALL;
}

/** Blocks that the chosen plan is set against, and the situation that they are tried in. */
export function gridOf(modelBytes) {
  const large = modelBytes > LARGE_BYTES;
  const lengths = large ? { promptTokens: 32, maxNewTokens: 16 } : { promptTokens: 64, maxNewTokens: 64 };
  const blocks = [
    [16, 1],
    [64, 1],
    [32, 4],
    [128, 1],
  ].map(([batchSize, batches]) => ({ batchSize, batches }));
  return [
    { name: 'all in memory', ...lengths, blocks },
    { name: 'under half', ...lengths, blocks, capShare: 0.5 },
  ];
}
