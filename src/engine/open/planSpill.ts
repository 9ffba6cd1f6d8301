import { inDiskBlocks, SPILL_BUFFERS, SPILL_RUNS } from '../../plan/reserves.js';
import { placePages, type CacheRules } from '../memory/placePages.js';

/** The data that are to live on disk, and for how many rows. */
export interface SpillDemand {
  readonly slots: number;
  readonly rowsPerSlot: number;
  readonly tokensPerSquare: number;
  readonly pageTokens: number;
  /** Tokens of a row for which the disk's part of the cache is provided; longer rows keep the rest in memory. */
  readonly rowTokens: number;
  /** Share of the cache on disk, from 0 to 1; and on the GPU, by default 0. */
  readonly cacheShare: number;
  readonly gpuCacheShare?: number | undefined;
  /** Pages come to a GPU through so many buffers there; those of the disk go through as many. Default: they do not. */
  readonly cacheBuffers?: number | undefined;
  /** Share of the hidden states between layers on disk, from 0 to 1. */
  readonly activationShare: number;
  /**
   * Share of the slots whose hidden states stay on a GPU, which computes them; the others' move between layers even
   * where all of them stay in memory. Default: no GPU computes.
   */
  readonly gpuActivationShare?: number | undefined;
  /** Hidden state of one token. */
  readonly tokenBytes: number;
  /** The part of a row that groups of layers keep. Default: all of them everything. */
  readonly groups?: Pick<CacheRules, 'groups' | 'promptTokensUnderWay'> | undefined;
}

/** Room for the KV cache and for hidden states on disk, and the buffers through which they are seen. */
export interface SpillPlan {
  /** Pages of cache, in every layer of a group. */
  readonly pages: number;
  /** Most of them that one row may have in a group. */
  readonly pagesPerRow: number;
  /** Buffers for the pages of one square, and the pages that each holds. */
  readonly buffers: number;
  readonly bufferPages: number;
  /** Undefined where all hidden states stay where they are computed. */
  readonly activations:
    | {
        /** The first ones, whose hidden states stay on the GPU. */
        readonly stayingSlots: number;
        /** Tokens of each other slot's largest square whose hidden states are in memory; a like share of smaller. */
        readonly residentTokens: number;
        /** For those, beside a buffer for each slot that stays. */
        readonly buffers: number;
        readonly bytes: number;
      }
    | undefined;
}

/** Divides cache and hidden states between memory and disk. Pure. */
export function planSpill(demand: SpillDemand): SpillPlan {
  const {
    slots,
    rowsPerSlot,
    tokensPerSquare,
    pageTokens,
    rowTokens,
    cacheShare,
    gpuCacheShare,
    cacheBuffers = SPILL_BUFFERS,
    activationShare,
    gpuActivationShare,
    tokenBytes,
    groups,
  } = demand;
  const rules = { pageTokens, gpuShare: gpuCacheShare, diskShare: cacheShare, mostDiskPages: Infinity };
  const pagesPerRow = placePages(rowTokens, rules).pages.disk;
  const inGroups = groups && placePages(rowTokens, { ...rules, ...groups }).pages.disk;
  const stayingSlots = Math.round(slots * (gpuActivationShare ?? 0));
  // Of the hidden states that leave the GPU.
  const onDisk = activationShare > 0 ? Math.min(1, activationShare / (1 - (gpuActivationShare ?? 0))) : 0;
  const residentTokens = Math.round(tokensPerSquare * (1 - onDisk));
  const moving = slots - stayingSlots;
  const moves = moving > 0 && (residentTokens < tokensPerSquare || gpuActivationShare !== undefined);
  const extent = inDiskBlocks((tokensPerSquare - residentTokens) * tokenBytes);
  return {
    pages: slots * rowsPerSlot * (inGroups ?? pagesPerRow),
    pagesPerRow,
    buffers: pagesPerRow > 0 ? cacheBuffers : 0,
    bufferPages: rowsPerSlot * pagesPerRow,
    activations: moves
      ? {
          stayingSlots,
          residentTokens,
          buffers: Math.min(SPILL_BUFFERS, moving + 1),
          bytes: extent * moving * SPILL_RUNS,
        }
      : undefined,
  };
}
