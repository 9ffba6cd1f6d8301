/** How the KV pages of rows are spread over memory and disk. */
export interface CacheRules {
  readonly pageTokens: number;
  /** The share of a row's pages that lives on disk, from 0 to 1. */
  readonly diskShare: number;
  /** Most pages that one row may have there: what it may take of a staging buffer. */
  readonly mostDiskPages: number;
}

/** Pages by tier. */
export interface PageCounts {
  readonly memory: number;
  readonly disk: number;
}

/** How long a row is, and may become. */
export interface RowLengths {
  readonly promptTokens: number;
  /** Positions that are computed when the row runs to its full length: every token but the last sampled one. */
  readonly positions: number;
}

/**
 * Where the pages of a row live. The first `memory - 1` are in memory, the next `disk` on disk, and the last one is in memory again: while a
 * page of the disk is being filled, its tokens stand in that one, so a page goes to disk once, when it is complete. Pure.
 */
export function placePages(positions: number, { pageTokens, diskShare, mostDiskPages }: CacheRules): PageCounts {
  const pages = Math.max(1, Math.ceil(positions / pageTokens));
  const disk = Math.min(pages - 1, mostDiskPages, Math.round(pages * diskShare));
  return { memory: pages - disk, disk };
}

/** What a row holds when the first `begun` of its pages are complete or being filled: the last page in memory is held from the start where it serves the disk. */
export function heldPages({ memory, disk }: PageCounts, begun: number): PageCounts {
  if (disk === 0) return { memory: begun, disk: 0 };
  return { memory: Math.min(begun, memory - 1) + 1, disk: Math.min(Math.max(0, begun - (memory - 1)), disk) };
}

/** The longest row, in positions, that fits in pools of these sizes when it has them to itself. Pure. */
export function longestRow(capacity: PageCounts, rules: CacheRules): number {
  const fits = (pages: number): boolean => {
    const { memory, disk } = placePages(pages * rules.pageTokens, rules);
    return memory <= capacity.memory && disk <= capacity.disk;
  };
  let pages = 0;
  for (let step = 2 ** Math.ceil(Math.log2(capacity.memory + capacity.disk + 1)); step >= 1; step /= 2) if (fits(pages + step)) pages += step;
  return pages * rules.pageTokens;
}
