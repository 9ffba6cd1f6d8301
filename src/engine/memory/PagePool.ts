import { Subject, type Observable } from 'rxjs';
import { AdmissionPace } from './AdmissionPace.js';
import { FollowedPages } from './FollowedPages.js';
import { GrowthForecast, type GrowingRow, type SweepRules } from './GrowthForecast.js';
import { least, NO_PAGES, plus, within } from './pageCounts.js';
import { PageList } from './PageList.js';
import { PrefixTree, type PrefixMatch, type PrefixPath, type SharedTier } from './PrefixTree.js';
import { RowPages, type PageLists, type RowPrefix } from './RowPages.js';
import { firstPages, heldPages, longestRow, placeBehind, placePages, type CacheRules, type PageCounts, type RowLengths } from './rowPlacement.js';

/** Room for KV pages on disk, and how rows use it. */
export interface DiskCache {
  readonly pages: number;
  /** The share of a row's pages that lives there. */
  readonly share: number;
  /** Most pages of one row there. */
  readonly mostPerRow: number;
}

/** Room for KV pages on the GPU, and the share of a row's pages that lives there. */
export type GpuCache = Pick<DiskCache, 'pages' | 'share'>;

const NO_DISK: DiskCache = { pages: 0, share: 0, mostPerRow: 0 };
const NO_GPU: GpuCache = { pages: 0, share: 0 };

/** What a run's schedule promises about its sweeps. */
export interface SteadySweeps extends SweepRules {
  /** Rows come in whenever there is a place, so they can be spread over time. */
  readonly staggered: boolean;
}

/** Tokens that sharing a prefix has to save before rows wait until it has been computed: a sweep of few tokens costs about as much as one of so many. */
const WORTHWHILE_TOKENS = 128;

/** The rows of one run, and the pages that they hold. */
export interface RunPages {
  /**
   * A row waits, with this prompt: what it has in common with others is kept for it. Undefined where rows share nothing.
   * @param kind what else its results depend on; only rows of one kind share. Default: they depend on nothing else
   */
  expect(lengths: RowLengths, prompt: readonly number[], kind?: string): PrefixPath | undefined;
  /**
   * Pages for a row that somebody else has admitted, what its prompt needs taken; undefined while that is not free.
   * @param prefix what `followed` says of it
   */
  take(lengths: RowLengths, prefix?: RowPrefix): RowPages | undefined;
  /** What rows share that somebody else has admitted; only where all pages are in memory. */
  readonly followed: FollowedPages;
  /** Says that a sweep has been planned: time goes by. */
  advance(): void;
  /**
   * Opens a round of admission: what the rows that live now will need is looked at once.
   * @param places rows that may come: for which there is a place, and that are there
   */
  admission(places: number): Admission;
  /** Ends the run's use of the pool; its rows have been released. */
  close(): void;
}

/** Lets rows in, in order of arrival. */
export interface Admission {
  /** Pages for a row, what its prompt needs taken; undefined if there is no room for it beside the others, now or later. @param path what `expect` returned for it */
  admit(lengths: RowLengths, path?: PrefixPath): RowPages | undefined;
  /**
   * Pages for the beginning of a row's prompt, where it is worth computing by itself before the row comes in; 'coming' where that is under way; undefined
   * where the row should come in as it is, or there is no room for both.
   */
  admitPrefix(lengths: RowLengths, path: PrefixPath): RowPages | 'coming' | undefined;
}

/**
 * The KV pages of an engine, on the GPU, in memory and on disk. A row is admitted when everything that it and the others may still need will be there
 * when it is needed, so rows never wait for each other in mid-flight; it takes its pages as it grows.
 */
export class PagePool {
  private readonly lists: PageLists;
  private readonly releases = new Subject<void>();
  private readonly runs = new Map<RunPages, OpenRun>();
  private readonly rules: CacheRules;
  /** Pages that may be used. */
  private size: PageCounts;

  /** @param capacity pages in memory */
  constructor(
    readonly capacity: number,
    readonly pageTokens: number,
    readonly disk: DiskCache = NO_DISK,
    readonly gpu: GpuCache = NO_GPU,
  ) {
    this.size = { gpu: gpu.pages, memory: capacity, disk: disk.pages };
    this.lists = { gpu: new PageList(gpu.pages, () => this.reclaim('gpu')), memory: new PageList(capacity, () => this.reclaim('memory')), disk: new PageList(disk.pages) };
    this.rules = { pageTokens, gpuShare: gpu.share, diskShare: disk.share, mostDiskPages: disk.mostPerRow };
  }

  /** Emits after pages were released: somebody who found no room may try again. */
  get released$(): Observable<void> {
    return this.releases;
  }

  /** Pages in use now, and the most that were at once. */
  get used(): PageCounts {
    return { gpu: this.lists.gpu.used, memory: this.lists.memory.used, disk: this.lists.disk.used };
  }

  get peakUsed(): PageCounts {
    return { gpu: this.lists.gpu.peakUsed, memory: this.lists.memory.peakUsed, disk: this.lists.disk.peakUsed };
  }

  /** The longest row that can ever be admitted, in positions. */
  get longestRow(): number {
    return longestRow(this.size, this.rules);
  }

  /** Whether so many more pages are free, or kept for rows to come only. */
  has(pages: PageCounts): boolean {
    return within(plus(plus(this.used, this.reclaimable, -1), pages), this.size);
  }

  /** Uses no more than so many pages from now on: somebody who has to hold the same rows has no more. */
  limitTo(pages: PageCounts): void {
    this.size = least(this.size, pages);
    this.lists.memory.limitTo(this.size.memory);
  }

  /**
   * @param sweeps what the run's schedule promises, if it does: its rows are then counted as they grow. Not while several runs share the
   * pool, since they know nothing of each other's pace: then every row counts in full
   * @param shares its rows share the pages of what their prompts have in common
   * @param onFree told which page, as tables name it, is kept for others no longer
   */
  openRun(sweeps?: SteadySweeps, shares = false, onFree: (page: number) => void = () => undefined): RunPages {
    const rows = new Set<RowPages>();
    const tree = shares ? new PrefixTree(this.pageTokens, (page, tier) => {
      this.lists[tier].give(tier === 'gpu' ? page - this.capacity : page);
      onFree(page);
    }) : undefined;
    const followed = new FollowedPages(this.pageTokens, (page) => {
      this.lists.memory.give(page);
      this.releases.next();
    });
    const pace = new AdmissionPace(this.size, this.pageTokens);
    const hold = (lengths: RowLengths, placement: PageCounts, prefix?: RowPrefix): RowPages => {
      const row = new RowPages(lengths, placement, this.pageTokens, this.lists, () => {
        rows.delete(row);
        this.releases.next();
      }, prefix);
      rows.add(row);
      return row;
    };
    const run: RunPages = {
      expect: (lengths, prompt, kind) => tree?.enter(prompt, placePages(lengths.positions, this.rules), kind),
      followed,
      take: (lengths, prefix) => {
        const placement = placePages(lengths.positions, this.rules);
        const begun = Math.max(1, Math.ceil(Math.min(lengths.promptTokens, lengths.positions) / this.pageTokens));
        const own = plus(heldPages(placement, begun), { ...NO_PAGES, memory: prefix?.match.pages ?? 0 }, -1);
        return this.has(own) ? hold(lengths, placement, prefix) : undefined;
      },
      advance: () => {
        pace.advance();
      },
      admission: (places) => this.admission({ rows, sweeps, pace, places, tree }),
      close: () => {
        this.runs.delete(run);
        tree?.close();
        followed.close();
        this.releases.next();
      },
    };
    this.runs.set(run, { rows, tree });
    return run;
  }

  /** Pages that are kept for rows to come, and that whoever needs them may have. */
  private get reclaimable(): PageCounts {
    let pages = NO_PAGES;
    for (const { tree } of this.runs.values()) if (tree) pages = plus(pages, tree.reclaimable);
    return pages;
  }

  private reclaim(tier: SharedTier): boolean {
    for (const { tree } of this.runs.values()) if (tree?.reclaim(tier) === true) return true;
    return false;
  }

  private admission({ rows, sweeps, pace, places, tree }: AdmissionRound): Admission {
    const grows = sweeps !== undefined && this.runs.size === 1;
    let inFull = NO_PAGES;
    for (const run of this.runs.values()) {
      inFull = plus(inFull, sharedBy(run));
      for (const row of run.rows) inFull = plus(inFull, ownPart(row, this.pageTokens).placement);
    }
    const fitInFull = (placement: PageCounts, times = 1): boolean => within(plus(inFull, placement, times), this.size);
    // Made only when it matters: mostly there is room for everything in full.
    let forecast: GrowthForecast | undefined;
    const fits = (row: GrowingRow, beside: PageCounts): boolean => {
      if (fitInFull(plus(row.placement, beside))) return true;
      if (!grows) return false;
      forecast ??= this.forecast({ rows, tree }, sweeps);
      return forecast.fits(row, beside);
    };
    // What a row needs that takes part of its prompt from others: pages of its own, and beside them those that nobody holds at present.
    const needs = (lengths: RowLengths, prefix?: AdmittedPrefix): { readonly placement: PageCounts; readonly own: OwnPart; readonly beside: PageCounts } => {
      const { pages = 0, tokens = 0 } = prefix?.match ?? {};
      const placement = placeBehind(prefix?.path.placement ?? placePages(lengths.positions, this.rules), pages);
      return { placement, own: ownPart({ lengths, placement, next: tokens, sharedPages: pages }, this.pageTokens), beside: prefix?.tree.idlePages(prefix.path, prefix.match) ?? NO_PAGES };
    };
    const take = (lengths: RowLengths, prefix?: AdmittedPrefix): RowPages | undefined => {
      const { placement, own, beside } = needs(lengths, prefix);
      // If as many rows like this one would not fit in full, they come in at a pace; but time goes by only while a row lives.
      const paced = grows && sweeps.staggered && rows.size > 0 && !fitInFull(own.placement, places);
      if ((paced && !pace.open) || !fits(own, beside)) return undefined;
      const row: RowPages = new RowPages(lengths, placement, this.pageTokens, this.lists, () => {
        rows.delete(row);
        pace.ended(own, own.placement, row.next - own.shift);
        this.releases.next();
      }, prefix);
      rows.add(row);
      forecast?.add(own, beside);
      pace.admitted(own, own.placement);
      inFull = plus(inFull, plus(own.placement, beside));
      places--;
      return row;
    };
    return {
      admit: (lengths, path) => {
        if (!tree || !path) return take(lengths);
        const match = tree.match(path);
        const sharing = (pages: number, source: PrefixMatch['source'], tokens = pages * this.pageTokens): RowPages | undefined => take(lengths, { tree, path, match: { pages, source, tokens } });
        // Where it is that tight, the page in which the prefix ends stands in nobody's way; nor does a prefix that is in memory, of a row that could be on disk, when there is no other to wait for.
        return sharing(match.pages, match.source, match.tokens) ?? (match.source && sharing(match.pages, undefined)) ?? (path.placement.disk > 0 && rows.size === 0 ? sharing(0, undefined) : undefined);
      },
      admitPrefix: (lengths, path) => {
        if (!tree) return undefined;
        const match = tree.match(path);
        const { tokens, saved } = tree.worth(path, match.tokens);
        if (saved < WORTHWHILE_TOKENS || tokens <= match.tokens) return undefined;
        if (match.coming > match.tokens) return 'coming';
        const whole = needs(lengths);
        if (!fits(whole.own, whole.beside)) return undefined;
        const prefix = tree.enterPrefix(path, tokens);
        const pages = take({ promptTokens: tokens, positions: tokens }, { tree, path: prefix, match });
        if (!pages) tree.leave(prefix);
        return pages;
      },
    };
  }

  private forecast(run: OpenRun, sweeps: SweepRules): GrowthForecast {
    const forecast = new GrowthForecast(plus(this.size, sharedBy(run), -1), this.pageTokens, sweeps);
    for (const row of run.rows) forecast.add(ownPart(row, this.pageTokens));
    return forecast;
  }
}

/** What a row shares, by the tree of its run. */
interface AdmittedPrefix extends RowPrefix {
  readonly tree: PrefixTree;
  readonly path: PrefixPath;
}

/** A run's rows, and what of their prompts they have in common. */
interface OpenRun {
  readonly rows: ReadonlySet<RowPages>;
  readonly tree: PrefixTree | undefined;
}

/** Pages of a run that are no single row's. They count once, and as if they were held for good. */
function sharedBy({ tree }: OpenRun): PageCounts {
  return tree?.commonPages ?? NO_PAGES;
}

interface OwnPart extends GrowingRow {
  readonly shift: number;
}

/** A row without the pages that others hold, too: as memory sees it, a shorter row. Its positions are counted from `shift` on. Pure. */
function ownPart({ lengths, placement, next, sharedPages }: Pick<RowPages, 'lengths' | 'placement' | 'next' | 'sharedPages'>, pageTokens: number): OwnPart {
  const shift = sharedPages * pageTokens;
  return {
    promptTokens: lengths.promptTokens - shift,
    positions: lengths.positions - shift,
    placement: plus(placement, firstPages(placement, sharedPages), -1),
    next: Math.max(0, next - shift),
    shift,
  };
}

/** What one round of admission begins with. */
interface AdmissionRound {
  readonly rows: Set<RowPages>;
  readonly sweeps: SteadySweeps | undefined;
  readonly pace: AdmissionPace;
  readonly tree: PrefixTree | undefined;
  places: number;
}
