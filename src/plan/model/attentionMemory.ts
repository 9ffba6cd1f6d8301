import type { ModelShape } from '../ModelShape.js';
import type { BlockChoice } from '../Policy.js';

/** Rounded up to a line of memory. */
export const align = (bytes: number): number => Math.ceil(bytes / 64) * 64;
const to16 = (count: number): number => Math.ceil(count / 16) * 16;

/** Queries of a block that are there at once: where prompts' keys and values are rounded first, and otherwise. */
const PROMPT_QUERIES = 256;
const BLOCK_QUERIES = 32;
/** Positions that a query takes at once, and queries that share the loads of them. */
const PART_TOKENS = 256;
const TILE_QUERIES = 8;
/** Elements of a head that are compressed together. */
const CACHE_GROUP = 64;
/** Bytes of a row: its range as attention takes it, where its chosen keys are, and whether all of them were loaded. */
const ROW_BYTES = [104, 8, 1] as const;

/** The part of a block's setting that attention's memory follows from. */
export interface AttentionSetting extends Pick<BlockChoice, 'batchSize' | 'compressCache' | 'sparseAttention'> {
  /** Pages are on disk: of those that sparse attention takes little of, keys come first, and a bit for each is kept. */
  readonly spills: boolean;
}

/**
 * Gives the bytes that attention on the processor takes for a square (native/kernels/cpu/Attention.h:
 * attentionScratchBytes): of each thread what a block of queries and a part of the keys are made into, the larger the
 * wider heads are, and where attention is sparse the scores of the longest row. 0 where no layer attends.
 */
export function attentionScratchBytes(
  { heads, kvHeads, headDim, contextTokens, latent, mixers }: ModelShape,
  threads: number,
  { batchSize: rows, compressCache, sparseAttention = 1, spills }: AttentionSetting,
): number {
  if (mixers?.every(({ window }) => window === undefined) === true) return 0;
  const isPlain = compressCache === 'none';
  const stride = to16(headDim);
  const groups = Math.ceil(headDim / CACHE_GROUP);
  const sharing = heads / kvHeads;
  const most = isPlain ? PROMPT_QUERIES : BLOCK_QUERIES;
  const queries = to16(Math.max(1, Math.floor(most / sharing)) * sharing);
  const ofQuery = isPlain ? stride / 2 + 1 : (3 * stride) / 4 + 2 * groups;
  const ofWeights = isPlain ? PART_TOKENS / 2 + 1 : groups * ((3 * PART_TOKENS) / 4 + 2);
  const dense =
    (isPlain ? PART_TOKENS * (stride + 2) : 0) +
    queries * (2 * stride + 2 + ofQuery) +
    TILE_QUERIES * (PART_TOKENS + stride + ofWeights);
  const isSparse = sparseAttention < 1;
  const sparse = isSparse ? to16(contextTokens) * (TILE_QUERIES + 2) : 0;
  const attending = 3 * align((rows + 1) * 8) + threads * (align(dense * 4) + align(sparse * 4));
  if (!isSparse || !spills || latent) return attending;
  const bits = align(kvHeads * Math.ceil(contextTokens / 64) * 8);
  return attending + ROW_BYTES.reduce((sum, bytes) => sum + align(rows * bytes), 0) + rows * bits;
}
