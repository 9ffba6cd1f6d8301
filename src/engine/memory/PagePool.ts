import { Subject, type Observable } from 'rxjs';
import { Admission, type OpenRun, type SteadySweeps } from './Admission.js';
import { AdmissionPace } from './AdmissionPace.js';
import { ALL_POSITIONS, type CacheLaw } from '../grid/CacheLaw.js';
import { FollowedPages } from './FollowedPages.js';
import { REASONS } from './IdlePages.js';
import { least, NO_PAGES, plus, within, type PageCounts } from '../grid/pageCounts.js';
import { PageList } from './PageList.js';
import type { PrefixPath, SharedTier } from './PrefixNode.js';
import { PrefixTree, type TreeCensus } from './PrefixTree.js';
import { RowPages, type PageLists, type RowPrefix } from './RowPages.js';
import type { RowLengths } from './PagePlacement.js';
import { longestRow, placePages, type CacheRules } from './placePages.js';
import type { RowId } from '../grid/Square.js';

export type { Admission, SteadySweeps };

/** Room for KV pages on disk, and how rows use it. */
export interface DiskCache {
  readonly pages: number;
  /** The share of a row's pages that lives there. */
  readonly share: number;
  /** Most pages of one row there. */
  readonly mostPerRow: number;
}

/** Room for KV pages on the GPU, and the share of a row's pages that lives there. */
export interface GpuCache extends Pick<DiskCache, 'pages' | 'share'> {
  /** Where a row's other pages come to the GPU: for how many there is room. Default: they do not. */
  readonly mostFetched?: number;
  /** As in `CacheRules`. */
  readonly attendedShare?: number | undefined;
}

/** The longest row that can ever be admitted, in positions, by the pages that there are or by the GPU's buffers. */
export interface RowLimit {
  readonly tokens: number;
  /** `square`: of an encoder, whose rows are computed whole; `keeper`: pages of each engine that keeps some rows. */
  readonly by: 'pages' | 'keeper' | 'buffers' | 'square';
}

/** Rules of what the layers keep of rows, group by group. */
export type PoolGroups = Pick<CacheRules, 'promptTokensUnderWay'> & {
  readonly groups: readonly CacheLaw[];
  /** Rows of which layers can remember a state at once. Default: none does. */
  readonly states?: number | undefined;
};

const ONE_GROUP: PoolGroups = { groups: [ALL_POSITIONS] };
const NO_DISK: DiskCache = { pages: 0, share: 0, mostPerRow: 0 };
const NO_GPU: GpuCache = { pages: 0, share: 0 };

/** The rows of one run, and the pages that they hold. */
export interface RunPages {
  /**
   * A row waits, with this prompt: what it has in common with others is kept for it. Undefined where rows share
   * nothing.
   * @param kind what else its results depend on; only rows of one kind share. Default: they depend on nothing else
   * @param goesOn rows are expected to go on after its prompt. Default false
   */
  expect(lengths: RowLengths, prompt: readonly number[], kind?: string, goesOn?: boolean): PrefixPath | undefined;
  /** The row will not come. */
  forget(path: PrefixPath): void;
  /**
   * Lists the rows that wait: what shares most with what is there comes first, and rows that begin alike together; else
   * in order of arrival.
   */
  inTurn(): Iterable<PrefixPath>;
  /**
   * Pages for a row that somebody else has admitted, what its prompt needs taken; undefined while that is not free.
   * @param prefix what `followed` says of it
   * @param keeper the engine that keeps it. Default: this one
   */
  take(row: RowId, lengths: RowLengths, prefix?: RowPrefix, keeper?: number): RowPages | undefined;
  /** The pages shared by rows that somebody else has admitted; only where all pages are in memory. */
  readonly followed: FollowedPages;
  /** A sweep has been planned: time goes by. @param share of the rows that it advances. Default 1 */
  sweepPlanned(share?: number): void;
  /**
   * Opens a round of admission.
   * @param places rows that may come: for which there is a place, and that are there
   * @param slots batches that they are dealt out to. Default 1
   */
  admission(places: number, slots?: number): Admission;
  /** Ends the run's use of the pool; its rows have been released. */
  close(): void;
  /** Counts what rows share that is in use: nothing, once the run is over. */
  census(): TreeCensus;
}

/**
 * The KV pages of an engine, on the GPU, in memory and on disk. A row is admitted when everything that it and the
 * others may still need will be there when it is needed, so rows never wait for each other in mid-flight; it takes its
 * pages as it grows.
 */
export class PagePool {
  /** The pages of each engine that keeps some rows; of one where nobody else does. */
  private readonly kept: readonly PageLists[];
  private readonly releases = new Subject<void>();
  private readonly runs = new Map<RunPages, OpenRun>();
  private rules: CacheRules & PoolGroups;
  private readonly capacities: PageCounts;
  /** Limits of engines that have to hold the same rows. */
  private readonly limits = new Set<{ readonly pages: PageCounts; readonly mostElsewherePages: number }>();
  /** Pages that may be used. */
  private size: PageCounts;
  private longest: RowLimit;

  /**
   * @param capacity pages in memory
   * @param keepers where engines keep some rows each, as many pages as this one: which of them this is, and how many
   */
  constructor(
    readonly capacity: number,
    readonly pageTokens: number,
    readonly disk: DiskCache = NO_DISK,
    readonly gpu: GpuCache = NO_GPU,
    groups: PoolGroups = ONE_GROUP,
    private readonly keepers: { readonly index: number; readonly of: number } = { index: 0, of: 1 },
  ) {
    this.size = this.capacities = { gpu: gpu.pages, memory: capacity, disk: disk.pages };
    this.kept = Array.from({ length: keepers.of }, () => ({
      gpu: new PageList(gpu.pages, () => this.reclaim('gpu')),
      memory: new PageList(
        capacity,
        () => this.reclaim('memory'),
        () => {
          this.reuse('memory');
        },
      ),
      disk: new PageList(disk.pages),
      states: groups.states === undefined ? undefined : new PageList(groups.states),
    }));
    this.rules = {
      pageTokens,
      gpuShare: gpu.share,
      diskShare: disk.share,
      mostDiskPages: disk.mostPerRow,
      mostFetchedPages: gpu.mostFetched,
      attendedShare: gpu.attendedShare,
      ...groups,
    };
    this.longest = this.limitOfRows();
  }

  /** The pages here. */
  private get lists(): PageLists {
    return this.listsOf(this.keepers.index);
  }

  /** Pages of another engine are counted here, too, so that all know where there is room. */
  private listsOf(keeper: number): PageLists {
    const lists = this.kept[keeper];
    if (!lists) throw new RangeError(`keeper: found ${keeper}, expected one of ${this.kept.length}`);
    return lists;
  }

  /** Emits after pages were released: somebody who found no room may try again. */
  get released$(): Observable<void> {
    return this.releases;
  }

  /** Engines that keep some rows each; 1 where this one keeps all. */
  get keeperCount(): number {
    return this.keepers.of;
  }

  /** Pages in use now, and the most that were at once. */
  get used(): PageCounts {
    return usedOf(this.lists);
  }

  get peakUsed(): PageCounts {
    return { gpu: this.lists.gpu.peakUsed, memory: this.lists.memory.peakUsed, disk: this.lists.disk.peakUsed };
  }

  /** The longest row that can ever be admitted, in positions. */
  get longestRow(): number {
    return this.longest.tokens;
  }

  /** The same, and what holds no longer one. Each row asks. */
  get rowLimit(): RowLimit {
    return this.longest;
  }

  private limitOfRows(): RowLimit {
    const tokens = longestRow(this.size, this.rules);
    const inPages = longestRow(this.size, {
      ...this.rules,
      mostFetchedPages: undefined,
      mostElsewherePages: undefined,
    });
    return { tokens, by: inPages > tokens ? 'buffers' : this.keeperCount > 1 ? 'keeper' : 'pages' };
  }

  /** Tells whether so many more pages are free, or kept for rows to come only. @param keeper where. Default: here */
  has(pages: PageCounts, keeper = this.keepers.index): boolean {
    return within(plus(plus(usedOf(this.listsOf(keeper)), this.reclaimable, -1), pages), this.size);
  }

  /**
   * Uses no more than so many pages from now on: somebody who has to hold the same rows has no more.
   * @param mostElsewherePages as in `CacheRules`, where that somebody brings rows' pages to a GPU. Default: any number
   * @returns what takes the limit back, once nobody has to any more
   */
  limitTo(pages: PageCounts, mostElsewherePages = Infinity): () => void {
    const limit = { pages, mostElsewherePages };
    this.limits.add(limit);
    this.limit();
    return () => {
      if (!this.limits.delete(limit)) return;
      this.limit();
      this.releases.next();
    };
  }

  private limit(): void {
    this.size = [...this.limits].reduce((size, { pages }) => least(size, pages), this.capacities);
    for (const { memory } of this.kept) memory.limitTo(this.size.memory);
    const elsewhere = [...this.limits].map(({ mostElsewherePages }) => mostElsewherePages);
    this.rules = { ...this.rules, mostElsewherePages: Math.min(...elsewhere) };
    this.longest = this.limitOfRows();
  }

  /**
   * @param sweeps what the run's schedule promises, if it does: its rows are then counted as they grow, and those of
   * other runs in full, since runs know nothing of each other's pace
   * @param shares its rows share the pages of what their prompts have in common
   * @param onFree told which page, as tables name it, is kept for others no longer
   */
  openRun(sweeps?: SteadySweeps, shares = false, onFree: (page: number) => void = () => undefined): RunPages {
    const rows = new Set<RowPages>();
    const tree = shares
      ? new PrefixTree(
          this.pageTokens,
          (page, tier) => {
            this.lists[tier].give(tier === 'gpu' ? page - this.capacity : page);
            onFree(page);
          },
          () => this.size,
          this.rules.groups.length,
        )
      : undefined;
    const onRelease = (): void => {
      this.releases.next();
    };
    const followed = new FollowedPages(this.pageTokens, (page) => {
      this.lists.memory.give(page);
      onRelease();
    });
    const pace = new AdmissionPace(this.size, this.pageTokens);
    const open = { rows, tree };
    const run: RunPages = {
      expect: (lengths, prompt, kind, goesOn) =>
        tree?.enter(prompt, placePages(lengths.positions, this.rules, lengths.promptTokens), kind, goesOn),
      forget: (path) => tree?.leave(path),
      inTurn: () => tree?.inTurn() ?? [],
      followed,
      take: (row, lengths, prefix, keeper = this.keepers.index) => {
        const placement = placePages(lengths.positions, this.rules, lengths.promptTokens);
        const begun = Math.max(1, Math.ceil(Math.min(lengths.promptTokens, lengths.positions) / this.pageTokens));
        const own = plus(placement.held(begun, true), { ...NO_PAGES, memory: prefix?.match.pages ?? 0 }, -1);
        const lists = this.listsOf(keeper);
        const { states } = lists;
        if (!this.has(own, keeper) || (states && states.used >= states.capacity)) return undefined;
        const pages: RowPages = new RowPages(
          row,
          lengths,
          placement,
          this.pageTokens,
          lists,
          () => {
            rows.delete(pages);
            onRelease();
          },
          prefix,
          onRelease,
          keeper,
        );
        rows.add(pages);
        return pages;
      },
      sweepPlanned: (share) => {
        pace.advance(share);
      },
      admission: (places, slots = 1) => {
        const { kept, rules, size } = this;
        return new Admission({
          runs: [...this.runs.values()],
          run: open,
          // Those that grow beside a row are others' business, where these are kept elsewhere: all are counted in full.
          sweeps: kept.length > 1 ? undefined : sweeps,
          pace,
          rules,
          size,
          kept,
          onRelease,
          places,
          slots,
        });
      },
      close: () => {
        this.runs.delete(run);
        tree?.close();
        followed.close();
        onRelease();
      },
      census: () => {
        const there = followed.census();
        const { waiting, holders, readers, pages, nodes } = tree?.census() ?? NOTHING;
        return {
          waiting,
          nodes,
          holders: holders + there.holders,
          readers: readers + there.readers,
          pages: pages + there.pages,
        };
      },
    };
    this.runs.set(run, open);
    return run;
  }

  /** Pages that are kept for rows to come, and that whoever needs them may have. */
  private get reclaimable(): PageCounts {
    let pages = NO_PAGES;
    for (const { tree } of this.runs.values()) if (tree) pages = plus(pages, tree.reclaimable);
    return pages;
  }

  private reclaim(tier: SharedTier): boolean {
    for (const reason of REASONS)
      for (const { tree } of this.runs.values()) if (tree?.reclaim(tier, reason) === true) return true;
    return false;
  }

  private reuse(tier: SharedTier): void {
    for (const { tree } of this.runs.values()) if (tree?.reuse(tier) === true) return;
  }
}

function usedOf({ gpu, memory, disk }: PageLists): PageCounts {
  return { gpu: gpu.used, memory: memory.used, disk: disk.used };
}

const NOTHING: TreeCensus = { waiting: 0, holders: 0, readers: 0, pages: 0, nodes: 0 };
