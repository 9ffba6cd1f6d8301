import { Subject, type Observable } from 'rxjs';
import { AdmissionPace } from './AdmissionPace.js';
import { GrowthForecast, type SweepRules } from './GrowthForecast.js';
import { least, NO_PAGES, plus, within } from './pageCounts.js';
import { PageList } from './PageList.js';
import { RowPages, type PageLists } from './RowPages.js';
import { heldPages, longestRow, placePages, type CacheRules, type PageCounts, type RowLengths } from './rowPlacement.js';

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

/** The rows of one run, and the pages that they hold. */
export interface RunPages {
  /** Pages for a row that somebody else has admitted, what its prompt needs taken; undefined while that is not free. */
  take(lengths: RowLengths): RowPages | undefined;
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
  /** Pages for a row, what its prompt needs taken; undefined if there is no room for it beside the others, now or later. */
  admit(lengths: RowLengths): RowPages | undefined;
}

/**
 * The KV pages of an engine, on the GPU, in memory and on disk. A row is admitted when everything that it and the others may still need will be there
 * when it is needed, so rows never wait for each other in mid-flight; it takes its pages as it grows.
 */
export class PagePool {
  private readonly lists: PageLists;
  private readonly releases = new Subject<void>();
  private readonly runs = new Map<RunPages, ReadonlySet<RowPages>>();
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
    this.lists = { gpu: new PageList(gpu.pages), memory: new PageList(capacity), disk: new PageList(disk.pages) };
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

  /** Whether so many more pages are free. */
  has(pages: PageCounts): boolean {
    return within(plus(this.used, pages), this.size);
  }

  /** Uses no more than so many pages from now on: somebody who has to hold the same rows has no more. */
  limitTo(pages: PageCounts): void {
    this.size = least(this.size, pages);
  }

  /**
   * @param sweeps what the run's schedule promises, if it does: its rows are then counted as they grow. Not while several runs share the
   * pool, since they know nothing of each other's pace: then every row counts in full
   */
  openRun(sweeps?: SteadySweeps): RunPages {
    const rows = new Set<RowPages>();
    const pace = new AdmissionPace(this.size, this.pageTokens);
    const hold = (lengths: RowLengths, placement: PageCounts): RowPages => {
      const row = new RowPages(lengths, placement, this.pageTokens, this.lists, () => {
        rows.delete(row);
        this.releases.next();
      });
      rows.add(row);
      return row;
    };
    const run: RunPages = {
      take: (lengths) => {
        const placement = placePages(lengths.positions, this.rules);
        const begun = Math.max(1, Math.ceil(Math.min(lengths.promptTokens, lengths.positions) / this.pageTokens));
        return this.has(heldPages(placement, begun)) ? hold(lengths, placement) : undefined;
      },
      advance: () => {
        pace.advance();
      },
      admission: (places) => this.admission({ rows, sweeps, pace, places }),
      close: () => {
        this.runs.delete(run);
        this.releases.next();
      },
    };
    this.runs.set(run, rows);
    return run;
  }

  private admission({ rows, sweeps, pace, places }: AdmissionRound): Admission {
    const grows = sweeps !== undefined && this.runs.size === 1;
    let inFull = NO_PAGES;
    for (const others of this.runs.values()) for (const { placement } of others) inFull = plus(inFull, placement);
    const fitInFull = (placement: PageCounts, times = 1): boolean => within(plus(inFull, placement, times), this.size);
    // Made only when it matters: mostly there is room for everything in full.
    let forecast: GrowthForecast | undefined;
    const fits = (lengths: RowLengths, placement: PageCounts): boolean => {
      if (fitInFull(placement)) return true;
      if (!grows) return false;
      forecast ??= this.forecast(rows, sweeps);
      return forecast.fits({ ...lengths, placement, next: 0 });
    };
    return {
      admit: (lengths) => {
        const placement = placePages(lengths.positions, this.rules);
        // If as many rows like this one would not fit in full, they come in at a pace; but time goes by only while a row lives.
        const paced = grows && sweeps.staggered && rows.size > 0 && !fitInFull(placement, places);
        if ((paced && !pace.open) || !fits(lengths, placement)) return undefined;
        const row = new RowPages(lengths, placement, this.pageTokens, this.lists, () => {
          rows.delete(row);
          pace.ended(lengths, placement, row.next);
          this.releases.next();
        });
        rows.add(row);
        forecast?.add({ ...lengths, placement, next: 0 });
        pace.admitted(lengths, placement);
        inFull = plus(inFull, placement);
        places--;
        return row;
      },
    };
  }

  private forecast(rows: Iterable<RowPages>, sweeps: SweepRules): GrowthForecast {
    const forecast = new GrowthForecast(this.size, this.pageTokens, sweeps);
    for (const { lengths, placement, next } of rows) forecast.add({ ...lengths, placement, next });
    return forecast;
  }
}

/** What one round of admission begins with. */
interface AdmissionRound {
  readonly rows: Set<RowPages>;
  readonly sweeps: SteadySweeps | undefined;
  readonly pace: AdmissionPace;
  places: number;
}
