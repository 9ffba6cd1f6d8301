import { plus, total, type PageCounts, type PageTier } from '../grid/pageCounts.js';
import type { RowRange } from '../grid/Square.js';
import type { PageTable } from '../grid/PageTable.js';
import { ALL_POSITIONS, firstSeen, type CacheLaw } from '../grid/CacheLaw.js';

/** How long a row is, and may become. */
export interface RowLengths {
  readonly promptTokens: number;
  /** Positions that are computed when the row runs to its full length: every token but the last sampled one. */
  readonly positions: number;
  /** Tokens of the prompt, from the first, whose keys and values come with the row. Default 0. */
  readonly given?: number;
}

/**
 * On which tier each page of one row's KV cache lives, from the first to the last, and how many of them it holds as it
 * grows: of all groups of layers together. Whatever counts, takes and moves pages asks this. Immutable.
 */
export interface PagePlacement {
  /** Most that the row holds at once. */
  readonly pages: PageCounts;
  /** The law of each group of layers. */
  readonly laws: readonly CacheLaw[];
  /** Pages of the row at its longest, in the table of one group; and where they are. */
  readonly length: number;
  readonly inTable: PageCounts;
  /** Pages, from the first, that are held as long as the row lives, whatever its groups keep: others may share them. */
  readonly wholePages: number;
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
   * Counts what the row holds when the first `begun` of its pages are complete or being filled: the last page in memory
   * is held from the start where it serves the disk.
   * @param inPrompt while its prompt is computed, in stretches of many tokens. Default false
   */
  held(begun: number, inPrompt?: boolean): PageCounts;
  /** That of the same row which holds so many pages, from the first, as long as it lives; none of them on disk. */
  keeping(firstPages: number): PagePlacement;
  /** That of the pages after the first ones, as a row of its own. */
  without(firstPages: number): PagePlacement;
  /**
   * That of the same row whose first pages are others', too. Those are never on disk, where every row of a batch would
   * read them each pass; of what is left in the host the disk keeps its share. What is on the GPU stays there: results
   * depend on that, and not on sharing.
   */
  behind(sharedPages: number): PagePlacement;
}

/** The pages of each tier after one another, as `placePages` says. */
export class TierByTier implements PagePlacement {
  readonly laws = [ALL_POSITIONS];

  constructor(
    readonly pages: PageCounts,
    readonly attendedPages?: number,
  ) {}

  get length(): number {
    return total(this.pages);
  }

  get inTable(): PageCounts {
    return this.pages;
  }

  get wholePages(): number {
    return Infinity;
  }

  keeping(): PagePlacement {
    return this;
  }

  tierOf(index: number): PageTier | 'tail' {
    const { gpu, memory, disk } = this.pages;
    if (index < gpu) return 'gpu';
    if (disk === 0 || index < gpu + memory - 1) return 'memory';
    return index < gpu + memory - 1 + disk ? 'disk' : 'tail';
  }

  first(pages: number): TierByTier {
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

  without(firstPages: number): TierByTier {
    if (firstPages === 0) return this;
    const attended = this.attendedPages;
    return new TierByTier(
      plus(this.pages, this.first(firstPages).pages, -1),
      attended && Math.max(0, attended - firstPages),
    );
  }

  behind(sharedPages: number): TierByTier {
    const { gpu, memory, disk } = this.pages;
    const inHost = memory + disk;
    const own = inHost - this.first(sharedPages).pages.memory;
    if (disk === 0 || own === inHost) return this;
    const onDisk = Math.min(own - 1, Math.round((own * disk) / inHost));
    return new TierByTier({ gpu, memory: inHost - onDisk, disk: onDisk }, this.attendedPages);
  }
}

/** Pages of one layer that a range of a row needs room for where attention happens. */
export interface StagedPages {
  /** Pages of the disk that were complete before: they are read. */
  readonly loads: number;
  /** Pages of the disk that the range completes: they are written. */
  readonly stores: number;
}

/**
 * Counts a row's pages on disk that move when a range of the row is computed in a layer. Pure.
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
  const seen = Math.floor(firstSeen(window, firstPosition) / pageTokens);
  let loads = 0;
  let stores = 0;
  for (let page = seen; page < begun; page++) if ((entries[page] ?? 0) < 0) loads++;
  for (let page = begun; page < complete; page++) if ((entries[page] ?? 0) < 0) stores++;
  return { loads, stores };
}
