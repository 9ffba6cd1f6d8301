import { plus, total, within, type PageCounts } from '../grid/pageCounts.js';
import { ALL_POSITIONS, type CacheLaw } from '../grid/CacheLaw.js';
import { GroupedPlacement } from './GroupedPlacement.js';
import { TierByTier, type PagePlacement } from './PagePlacement.js';

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
  /** The law of what each group of layers keeps of a row. Default: one group, which keeps all positions. */
  readonly groups?: readonly CacheLaw[] | undefined;
  /** Most tokens of a row's prompt that are under way together. Default: any number. */
  readonly promptTokensUnderWay?: number | undefined;
}

/**
 * Where the pages of a row live. The first `gpu` are on the GPU, the next `memory` in the host's memory; with pages on
 * disk the next `memory - 1` only, then `disk` on disk, and the last one is in memory again: while a page of the disk
 * is being filled, its tokens stand in that one, so a page goes to disk once, when it is complete. A longer row has no
 * fewer pages of any tier. Pure.
 * @param promptTokens of these. Default: all of them
 */
export function placePages(positions: number, rules: CacheRules, promptTokens = positions): PagePlacement {
  const places = placeInOneGroup(positions, rules);
  const { groups: laws, pageTokens, promptTokensUnderWay = Infinity } = rules;
  if (!laws || (laws.length === 1 && laws[0] === ALL_POSITIONS)) return places;
  const promptPages = Math.ceil(Math.min(promptTokens, positions) / pageTokens);
  // A row that every group keeps all of may share all of it.
  const letsGo = laws.some((law) => law.letGo(positions, pageTokens) > 0);
  return new GroupedPlacement(places, { laws, pageTokens, promptTokensUnderWay }, promptPages).keeping(
    letsGo ? Math.min(places.length, Math.max(...laws.map((law) => law.stays(pageTokens)))) : places.length,
  );
}

function placeInOneGroup(
  positions: number,
  { pageTokens, gpuShare = 0, diskShare, mostDiskPages, attendedShare }: CacheRules,
): TierByTier {
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

/** Counts the pages that so many rows alike, whose first pages are the same ones, hold at their longest. Pure. */
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

/** Pages of a row: more than any context has. */
const MOST_PAGES = 2 ** 20;

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
  // Where groups give pages back a row may be of more pages than there are.
  const most = rules.groups?.every((law) => law === ALL_POSITIONS) === false ? MOST_PAGES : total(capacity) + 1;
  for (let step = 2 ** Math.ceil(Math.log2(most)); step >= 1; step /= 2) if (fits(pages + step)) pages += step;
  return pages * rules.pageTokens;
}
