import { plus, total, within, type PageCounts, type PageTier } from '../grid/pageCounts.js';
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
  /** Most pages of a row that come to a GPU. Default: any number. */
  readonly mostFetchedPages?: number | undefined;
  /** Most pages of a row in memory and on disk together. Default: any number. */
  readonly mostElsewherePages?: number | undefined;
  /**
   * Where some pages come to a GPU, and the processor attends to those that stay: the share of a row's pages that the
   * GPU attends to, those that live there included. Default: none or all of the others come.
   */
  readonly attendedShare?: number | undefined;
}

/** How long a row is, and may become. */
export interface RowLengths {
  readonly promptTokens: number;
  /** Positions that are computed when the row runs to its full length: every token but the last sampled one. */
  readonly positions: number;
}

/**
 * On which tier each page of one row's KV cache lives, from the first to the last, and how many of them it holds as it
 * grows. Whatever counts, takes and moves pages asks this: another way to place them, or one that gives pages up while
 * the row goes on (eviction of keys), is another implementation. Immutable.
 */
export interface PagePlacement {
  /** Of the row at its longest. */
  readonly pages: PageCounts;
  /**
   * How many of them, from the first, a GPU attends to, where others stay for the processor (`attendedShare`); else
   * undefined.
   */
  readonly attendedPages?: number | undefined;
  /**
   * Where a page is. `tail`: in memory, in the page that is held from the start where the row has pages on disk.
   * @param index from 0, in order of position
   */
  tierOf(index: number): PageTier | 'tail';
  /** That of the first pages, none of which is on disk, as a row of its own. */
  first(pages: number): PagePlacement;
  /**
   * What the row holds when the first `begun` of its pages are complete or being filled: the last page in memory is
   * held from the start where it serves the disk.
   */
  held(begun: number): PageCounts;
  /** That of the pages behind the first ones, as a row of its own. */
  without(firstPages: number): PagePlacement;
  /**
   * That of the same row whose first pages are others', too. Those are never on disk, where every row of a batch would
   * read them each pass; of what is left in the host the disk keeps its share. What is on the GPU stays there: results
   * depend on that, and not on sharing.
   */
  behind(sharedPages: number): PagePlacement;
}

/**
 * Where the pages of a row live. The first `gpu` are on the GPU, the next `memory` in the host's memory; with pages on
 * disk the next `memory - 1` only, then `disk` on disk, and the last one is in memory again: while a page of the disk
 * is being filled, its tokens stand in that one, so a page goes to disk once, when it is complete. A longer row has no
 * fewer pages of any tier. Pure.
 */
export function placePages(
  positions: number,
  { pageTokens, gpuShare = 0, diskShare, mostDiskPages, attendedShare }: CacheRules,
): PagePlacement {
  const pages = Math.max(1, Math.ceil(positions / pageTokens));
  const elsewhere = gpuShare + diskShare;
  const attended = attendedShare === undefined ? undefined : Math.round(pages * attendedShare);
  if (elsewhere <= 0) return new TierByTier({ gpu: 0, memory: pages, disk: 0 }, attended);
  const away = Math.min(diskShare > 0 ? pages - 1 : pages, Math.round(pages * elsewhere));
  const gpu = Math.round((away * gpuShare) / elsewhere);
  const disk = Math.min(away - gpu, mostDiskPages);
  return new TierByTier(
    { gpu, memory: pages - gpu - disk, disk },
    attended === undefined ? attended : Math.max(attended, gpu),
  );
}

/** The pages of each tier behind one another, as `placePages` says. */
export class TierByTier implements PagePlacement {
  constructor(
    readonly pages: PageCounts,
    readonly attendedPages?: number,
  ) {}

  tierOf(index: number): PageTier | 'tail' {
    const { gpu, memory, disk } = this.pages;
    if (index < gpu) return 'gpu';
    if (disk === 0 || index < gpu + memory - 1) return 'memory';
    return index < gpu + memory - 1 + disk ? 'disk' : 'tail';
  }

  first(pages: number): PagePlacement {
    const gpu = Math.min(pages, this.pages.gpu);
    return new TierByTier({ gpu, memory: pages - gpu, disk: 0 }, this.attendedPages);
  }

  held(begun: number): PageCounts {
    const { gpu, memory, disk } = this.pages;
    const onGpu = Math.min(begun, gpu);
    const behind = begun - onGpu;
    if (disk === 0) return { gpu: onGpu, memory: behind, disk: 0 };
    return {
      gpu: onGpu,
      memory: Math.min(behind, memory - 1) + 1,
      disk: Math.min(Math.max(0, behind - (memory - 1)), disk),
    };
  }

  without(firstPages: number): PagePlacement {
    if (firstPages === 0) return this;
    const attended = this.attendedPages;
    return new TierByTier(
      plus(this.pages, this.first(firstPages).pages, -1),
      attended && Math.max(0, attended - firstPages),
    );
  }

  behind(sharedPages: number): PagePlacement {
    const { gpu, memory, disk } = this.pages;
    const inHost = memory + disk;
    const own = inHost - this.first(sharedPages).pages.memory;
    if (disk === 0 || own === inHost) return this;
    const onDisk = Math.min(own - 1, Math.round((own * disk) / inHost));
    return new TierByTier({ gpu, memory: inHost - onDisk, disk: onDisk }, this.attendedPages);
  }
}

/** What so many rows alike hold at their longest, whose first pages are the same ones. Pure. */
export function pagesOfRows(placement: PagePlacement, rows: number, sharedPages: number): PageCounts {
  const behind = placement.behind(sharedPages);
  return plus(behind.first(sharedPages).pages, behind.without(sharedPages).pages, rows);
}

/**
 * Most pages that come to a GPU of a row of so many positions or fewer. Shares are rounded to whole pages one by one:
 * of a row that is somewhat shorter one more may come, with a share on disk two. Pure.
 */
export function mostComing(positions: number, rules: CacheRules): number {
  const { pages, attendedPages } = placePages(positions, rules);
  const elsewhere = pages.memory + pages.disk;
  if (attendedPages === undefined) return elsewhere;
  return Math.min(elsewhere, attendedPages - pages.gpu + (rules.diskShare > 0 ? 2 : 1));
}

/** The longest row, in positions, that fits in pools of these sizes when it has them to itself. Pure. */
export function longestRow(capacity: PageCounts, rules: CacheRules): number {
  const { mostFetchedPages = Infinity, mostElsewherePages = Infinity } = rules;
  const fits = (pages: number): boolean => {
    const positions = pages * rules.pageTokens;
    const placed = placePages(positions, rules).pages;
    return (
      within(placed, capacity) &&
      mostComing(positions, rules) <= mostFetchedPages &&
      placed.memory + placed.disk <= mostElsewherePages
    );
  };
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
