import type { BlockSetting } from '../CostModel.js';
import { cacheValues } from '../ModelShape.js';
import { compressedBits, slotsOf } from '../Policy.js';
import { PAGE_TOKENS, SPILL_BUFFERS } from '../reserves.js';

/** Bytes that most disks and file systems read at a time, where nobody has looked. */
const READ_BLOCK = 512;

/**
 * Gives the share of a page's values that is read from disk where sparse attention takes those of chosen keys alone:
 * the blocks that hold any of them. Choices are taken to be independent of one another, and of where a key stands, as
 * they are with random weights; a model's heads agree more, and from token to token, and read less.
 * @param keep the share of keys that a query takes the values of
 * @param choices how many choose: query heads that share a key head, times tokens
 * @param blockTokens tokens that a block holds the values of, of one head
 * @param held the share of all values that memory holds
 */
export function shareOfValuesRead(keep: number, choices: number, blockTokens: number, held = 0): number {
  return (1 - held) * (1 - (1 - keep) ** (choices * Math.max(1, blockTokens)));
}

/**
 * Gives the share of the values on disk that there is memory for once they have been read: it is as much as the staging
 * buffers take, each of which has one layer's pages of a batch. Values are half of a page.
 */
export function shareHeld(layers: number, slots: number): number {
  return Math.min(1, (2 * SPILL_BUFFERS) / (layers * slots));
}

/**
 * The closed form of what may be read at all: of one new token in one layer, the blocks with values of one key head, at
 * least and at most. Each of its query heads keeps its own key, which is in memory, and the best of the others. The
 * fewest blocks are read where heads agree on keys that stand together, as many as can be in memory; the most where no
 * two choices have a block in common. Of values that fill blocks evenly. Pure.
 * @param seen keys that the token sees, its own among them, of which so many are on disk
 * @param groupHeads query heads that share the key head
 * @param held such blocks that memory may hold already. Default: none
 */
export function boundsOfBlocksRead(
  keep: number,
  { seen, onDisk }: { readonly seen: number; readonly onDisk: number },
  {
    groupHeads,
    blockTokens,
    held = 0,
  }: { readonly groupHeads: number; readonly blockTokens: number; readonly held?: number },
): { readonly least: number; readonly most: number } {
  // As native/kernels/cpu/topK.h has it.
  const kept = Math.max(1, Math.min(seen, Math.ceil(Math.fround(keep) * (1 - 1e-6) * seen)));
  return {
    least: Math.max(0, Math.ceil((kept - (seen - onDisk)) / blockTokens) - held),
    most: Math.min(Math.ceil(onDisk / blockTokens), groupHeads * (kept - 1)),
  };
}

/** The shares of pages on disk that are read for rows that decode. */
export interface ValuesRead {
  /** Read before, in whole pages: all of them, or their keys; and the values read once keys have been chosen. */
  readonly keyShare: number;
  readonly valueShare: number;
  /** A request for values, on average: neighbours are read together. */
  readonly requestBytes: number;
}

/** Beside a GPU pages come whole, and so do latent rows, which are keys and values at once. */
export function valuesRead({
  hardware,
  shape,
  block,
}: Pick<BlockSetting, 'hardware' | 'shape' | 'block'>): ValuesRead {
  const { sparseAttention = 1, compressCache } = block;
  const pageBytes = ((cacheValues(shape) * compressedBits(compressCache, 16)) / 8) * PAGE_TOKENS;
  if (sparseAttention >= 1 || shape.latent || hardware.memory.gpuBytes > 0)
    return { keyShare: 1, valueShare: 0, requestBytes: pageBytes };
  const valueBytes = pageBytes / PAGE_TOKENS / 2 / shape.kvHeads;
  const held = shareHeld(shape.layers, slotsOf(block));
  const share = shareOfValuesRead(sparseAttention, shape.heads / shape.kvHeads, READ_BLOCK / valueBytes, held);
  const requestBytes = Math.min(pageBytes / 2, Math.max(READ_BLOCK, valueBytes) / (1 - share));
  return { keyShare: 1 / 2, valueShare: share / 2, requestBytes };
}
