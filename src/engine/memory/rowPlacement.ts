import { plus, total, within, type PageCounts } from '../grid/pageCounts.js';
import type { RowRange } from '../grid/Square.js';
import type { PageTable } from '../grid/PageTable.js';

/**
 * How the KV pages of rows are spread over the tiers. What is neither on the GPU nor on disk is in the host's memory.
 */
export interface CacheRules {
  readonly pageTokens: number;
  /** The share of a row's pages that lives on the GPU, from 0 to 1. Default 0. */
  readonly gpuShare?: number | undefined;
  /** The share of a row's pages that lives on disk, from 0 to 1. */
  readonly diskShare: number;
  /** Most pages that one row may have there: what it may take of a staging buffer. */
  readonly mostDiskPages: number;
}

/** How long a row is, and may become. */
export interface RowLengths {
  readonly promptTokens: number;
  /** Positions that are computed when the row runs to its full length: every token but the last sampled one. */
  readonly positions: number;
}

/**
 * Where the pages of a row live. The first `gpu` are on the GPU, the next `memory` in the host's memory; with pages on
 * disk the next `memory - 1` only, then `disk` on disk, and the last one is in memory again: while a page of the disk
 * is being filled, its tokens stand in that one, so a page goes to disk once, when it is complete. A longer row has no
 * fewer pages of any tier. Pure.
 */
export function placePages(
  positions: number,
  { pageTokens, gpuShare = 0, diskShare, mostDiskPages }: CacheRules,
): PageCounts {
  const pages = Math.max(1, Math.ceil(positions / pageTokens));
  const elsewhere = gpuShare + diskShare;
  if (elsewhere <= 0) return { gpu: 0, memory: pages, disk: 0 };
  const away = Math.min(diskShare > 0 ? pages - 1 : pages, Math.round(pages * elsewhere));
  const gpu = Math.round((away * gpuShare) / elsewhere);
  const disk = Math.min(away - gpu, mostDiskPages);
  return { gpu, memory: pages - gpu - disk, disk };
}

/** Where the first pages of a row are, none of which is on disk. Pure. */
export function firstPages({ gpu }: PageCounts, pages: number): PageCounts {
  const onGpu = Math.min(pages, gpu);
  return { gpu: onGpu, memory: pages - onGpu, disk: 0 };
}

/**
 * The placement of a row whose first pages are others', too. Those are never on disk, where every row of a batch would
 * read them each pass; of what is left in the host the disk keeps its share. What is on the GPU stays there: results
 * depend on that, and not on sharing. Pure.
 */
export function placeBehind(placement: PageCounts, sharedPages: number): PageCounts {
  const { gpu, memory, disk } = placement;
  const inHost = memory + disk;
  const own = inHost - firstPages(placement, sharedPages).memory;
  if (disk === 0 || own === inHost) return placement;
  const onDisk = Math.min(own - 1, Math.round((own * disk) / inHost));
  return { gpu, memory: inHost - onDisk, disk: onDisk };
}

/** What so many rows alike hold at their longest, whose first pages are the same ones. Pure. */
export function pagesOfRows(placement: PageCounts, rows: number, sharedPages: number): PageCounts {
  const behind = placeBehind(placement, sharedPages);
  const shared = firstPages(behind, sharedPages);
  return plus(shared, plus(behind, shared, -1), rows);
}

/**
 * What a row holds when the first `begun` of its pages are complete or being filled: the last page in memory is held
 * from the start where it serves the disk.
 */
export function heldPages({ gpu, memory, disk }: PageCounts, begun: number): PageCounts {
  const onGpu = Math.min(begun, gpu);
  const behind = begun - onGpu;
  if (disk === 0) return { gpu: onGpu, memory: behind, disk: 0 };
  return {
    gpu: onGpu,
    memory: Math.min(behind, memory - 1) + 1,
    disk: Math.min(Math.max(0, behind - (memory - 1)), disk),
  };
}

/** The longest row, in positions, that fits in pools of these sizes when it has them to itself. Pure. */
export function longestRow(capacity: PageCounts, rules: CacheRules): number {
  const fits = (pages: number): boolean => within(placePages(pages * rules.pageTokens, rules), capacity);
  let pages = 0;
  for (let step = 2 ** Math.ceil(Math.log2(total(capacity) + 1)); step >= 1; step /= 2)
    if (fits(pages + step)) pages += step;
  return pages * rules.pageTokens;
}

/** Pages of one layer that a range of a row needs room for where attention happens. */
export interface StagedPages {
  /** Pages of the disk that were complete before: they are read. */
  readonly loads: number;
  /** Pages of the disk that the range completes: they are written. */
  readonly stores: number;
}

/**
 * What of a row's pages on disk moves when a range of it is computed in a layer. Pure.
 *
 * @param window the layer's attention window in tokens; 0 = all positions. Pages that no token of the range sees stay
 * where they are
 */
export function stagedPages(
  { firstPosition, tokens }: RowRange,
  { entries, tail }: PageTable,
  pageTokens: number,
  window: number,
): StagedPages {
  if (tail < 0) return { loads: 0, stores: 0 };
  const begun = Math.floor(firstPosition / pageTokens);
  const complete = Math.floor((firstPosition + tokens) / pageTokens);
  const seen = window === 0 ? 0 : Math.floor(Math.max(0, firstPosition - window + 1) / pageTokens);
  let loads = 0;
  let stores = 0;
  for (let page = seen; page < begun; page++) if ((entries[page] ?? 0) < 0) loads++;
  for (let page = begun; page < complete; page++) if ((entries[page] ?? 0) < 0) stores++;
  return { loads, stores };
}
