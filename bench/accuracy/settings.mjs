// What is measured. Bits: of a number as the engine keeps it, scales and minima counted (blocks of 32 at 8 bits with a
// half for scale, groups of 64 at 4 bits with two halves; the cache's groups of 64 elements with two halves each).
const EIGHT_BIT_WEIGHTS = 8.5;
const FOUR_BIT_WEIGHTS = 4.5;
const EIGHT_BIT_CACHE = 8.5;
const FOUR_BIT_CACHE = 4.5;

/**
 * model: `file` as given, or `f16`, the same weights in 16 bits. baseline: the setting that a loss is counted from.
 * weightBits: of the layers' matrices, undefined where they are the file's own.
 */
export const SETTINGS = [
  { name: "the file's weights, float32", model: 'file', options: { precision: 'float32' }, cacheBits: 32 },
  {
    name: "the file's weights, default",
    model: 'file',
    options: {},
    cacheBits: 16,
    baseline: "the file's weights, float32",
  },
  {
    name: "the file's weights to 8 bits, one scale a row",
    model: 'file',
    options: { weightsLayout: 'int8' },
    weightBits: 8,
    cacheBits: 16,
    baseline: "the file's weights, float32",
  },
  { name: '16 bits, float32', model: 'f16', options: { precision: 'float32' }, cacheBits: 32 },
  { name: '16 bits, default', model: 'f16', options: {}, cacheBits: 16, baseline: '16 bits, float32' },
  { name: '8-bit weights', options: { compressWeights: '8bit' }, weightBits: EIGHT_BIT_WEIGHTS, cacheBits: 16 },
  { name: '4-bit weights', options: { compressWeights: '4bit' }, weightBits: FOUR_BIT_WEIGHTS, cacheBits: 16 },
  { name: '8-bit cache', options: { compressCache: '8bit' }, cacheBits: EIGHT_BIT_CACHE },
  { name: '4-bit cache', options: { compressCache: '4bit' }, cacheBits: FOUR_BIT_CACHE },
  { name: '10% sparse attention', options: { sparseAttention: 0.1 }, cacheBits: 16 },
  { name: 'keys of the first 4 and the last 256 tokens', options: { kvEviction: 'sinks:4,window:256' }, cacheBits: 16 },
  { name: 'keys of the last 256 tokens alone', options: { kvEviction: 'sinks:0,window:256' }, cacheBits: 16 },
  {
    name: '8-bit weights and cache',
    options: { compressWeights: '8bit', compressCache: '8bit' },
    weightBits: EIGHT_BIT_WEIGHTS,
    cacheBits: EIGHT_BIT_CACHE,
  },
  {
    name: '4-bit weights and cache',
    options: { compressWeights: '4bit', compressCache: '4bit' },
    weightBits: FOUR_BIT_WEIGHTS,
    cacheBits: FOUR_BIT_CACHE,
  },
  {
    name: '4-bit weights and cache, 10% sparse attention',
    options: { compressWeights: '4bit', compressCache: '4bit', sparseAttention: 0.1 },
    weightBits: FOUR_BIT_WEIGHTS,
    cacheBits: FOUR_BIT_CACHE,
  },
].map((setting) => ({
  model: 'f16',
  ...(setting.model === undefined && { baseline: '16 bits, default' }),
  ...setting,
}));

/** vLLM with the file's weights in 16 bits, and in 8 with one scale a row, activations too. */
export const PEERS = [
  { name: 'vLLM bfloat16', dtype: 'bfloat16', weightBits: 16 },
  { name: 'vLLM W8A8', dtype: 'bfloat16', eightBits: true, weightBits: 8 },
].map((peer) => ({ ...peer, cacheBits: 16, baseline: "the file's weights, float32" }));
