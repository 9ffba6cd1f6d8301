import type { BlockSetting } from '../CostModel.js';
import { cacheValues } from '../ModelShape.js';
import { compressedBits, slotsOf } from '../Policy.js';
import { PAGE_TOKENS, SPILL_BUFFERS } from '../reserves.js';
import { gapWorthReading } from './transferRates.js';

/** Bytes that most disks and file systems read at a time, where nobody has looked. */
const READ_BLOCK = 512;

/** Which values of pages on disk are looked for, and how they are read. */
export interface ValueReading {
  /** The share of keys that a query takes the values of. */
  readonly keep: number;
  /** So many choose: query heads that share a key head, times tokens. */
  readonly choices: number;
  /** Tokens that a block holds the values of, of one head. */
  readonly blockTokens: number;
  /** Blocks with values of a page. */
  readonly pageBlocks: number;
  /** The share of all values that memory holds. Default: none. */
  readonly held?: number;
  /** So many blocks between two that are wanted are read, too, to save a request. Default: none. */
  readonly gapBlocks?: number;
}

/**
 * Gives the share of a page's values that is read from disk where sparse attention takes those of chosen keys alone:
 * the blocks that hold any of them, but for those that memory holds, and small gaps between; and the requests for it.
 * Choices are taken to be independent of one another, of where a key stands, and of what memory holds, as they are with
 * random weights; a model's heads agree more, and from token to token, and read less. Pure.
 */
export function readOfValues({ keep, choices, blockTokens, pageBlocks, held = 0, gapBlocks = 0 }: ValueReading): {
  readonly share: number;
  readonly requests: number;
} {
  const wanted = (1 - held) * (1 - (1 - keep) ** (choices * Math.max(1, blockTokens)));
  let [filled, requests] = [0, wanted * pageBlocks];
  for (let length = 0; length <= Math.min(gapBlocks, pageBlocks - 2); length++) {
    // Of this length there are so many between two that are wanted, on average.
    const gaps = (pageBlocks - 1 - length) * wanted ** 2 * (1 - wanted) ** length;
    filled += length * gaps;
    requests -= gaps;
  }
  return { share: wanted + filled / pageBlocks, requests };
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
 * @param gapBlocks as in `ValueReading`
 */
export function boundsOfBlocksRead(
  keep: number,
  { seen, onDisk }: { readonly seen: number; readonly onDisk: number },
  {
    groupHeads,
    blockTokens,
    held = 0,
    gapBlocks = 0,
  }: Pick<ValueReading, 'blockTokens' | 'held' | 'gapBlocks'> & { readonly groupHeads: number },
): { readonly least: number; readonly most: number } {
  // As native/kernels/cpu/topK.h has it.
  const kept = Math.max(1, Math.min(seen, Math.ceil(Math.fround(keep) * (1 - 1e-6) * seen)));
  return {
    least: Math.max(0, Math.ceil((kept - (seen - onDisk)) / blockTokens) - held),
    most: Math.min(Math.ceil(onDisk / blockTokens), groupHeads * (kept - 1) * (1 + gapBlocks)),
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
  block: choice,
}: Pick<BlockSetting, 'hardware' | 'shape' | 'block'>): ValuesRead {
  const { sparseAttention = 1, compressCache } = choice;
  const pageBytes = ((cacheValues(shape) * compressedBits(compressCache, 16)) / 8) * PAGE_TOKENS;
  if (sparseAttention >= 1 || shape.latent || hardware.memory.gpuBytes > 0)
    return { keyShare: 1, valueShare: 0, requestBytes: pageBytes };
  const valueBytes = pageBytes / PAGE_TOKENS / 2 / shape.kvHeads;
  const block = Math.max(READ_BLOCK, valueBytes);
  const pageBlocks = Math.max(1, Math.round(pageBytes / 2 / block));
  const { share, requests } = readOfValues({
    keep: sparseAttention,
    choices: shape.heads / shape.kvHeads,
    blockTokens: READ_BLOCK / valueBytes,
    pageBlocks,
    held: shareHeld(shape.layers, slotsOf(choice)),
    gapBlocks: Math.floor(gapWorthReading(hardware) / block),
  });
  const requestBytes = requests > 0 ? (share * pageBlocks * block) / requests : block;
  return { keyShare: 1 / 2, valueShare: share / 2, requestBytes };
}
