import type { RowId } from '../grid/Square.js';
import type { AdmissionPace } from './AdmissionPace.js';
import { GrowthForecast, type GrowingRow, type SweepRules } from './GrowthForecast.js';
import { NO_PAGES, plus, within, type PageTier, type PageCounts } from '../grid/pageCounts.js';
import type { PrefixPath } from './PrefixNode.js';
import { NOTHING_BESIDE, type PagesBeside, type PrefixMatch, type PrefixTree } from './PrefixTree.js';
import { RowPages, type PageLists } from './RowPages.js';
import type { PagePlacement, RowLengths } from './PagePlacement.js';
import { placePages, type CacheRules } from './placePages.js';

/** The promises of a run's schedule about its sweeps. */
export interface SteadySweeps extends SweepRules {
  /** Rows come in whenever there is a place, so they can be spread over time. */
  readonly staggered: boolean;
}

/** A run's rows, and what of their prompts they have in common. */
export interface OpenRun {
  readonly rows: Set<RowPages>;
  readonly tree: PrefixTree | undefined;
}

/** The setup of one round of admission. */
export interface AdmissionSetup {
  /** All runs that use the pool; `run` is one of them. */
  readonly runs: Iterable<OpenRun>;
  readonly run: OpenRun;
  /** The promises of the run's schedule, where its rows may be counted as they grow. */
  readonly sweeps: SteadySweeps | undefined;
  readonly pace: AdmissionPace;
  readonly rules: CacheRules;
  readonly size: PageCounts;
  /** The pages of each engine that keeps some rows; of one where this one keeps all. */
  readonly kept: readonly PageLists[];
  readonly onRelease: () => void;
  /** Rows that may come: for which there is a place, and that are there. */
  readonly places: number;
  /** Batches that a schedule deals rows out to. */
  readonly slots: number;
}

/**
 * Tokens that sharing a prefix has to save before rows wait until it has been computed: a sweep of few tokens costs
 * about as much as one of so many.
 */
const WORTHWHILE_TOKENS = 128;

/** The part of its prompt that a row takes from others. */
interface Taken {
  readonly tree: PrefixTree;
  readonly path: PrefixPath;
  readonly match: Pick<PrefixMatch, 'pages' | 'source' | 'tokens'>;
  /** Where its pages are if it takes nothing. */
  readonly placement: PagePlacement;
}

/** A row that may come in, and whose prompt is computed before those of rows of a lower priority. */
interface Newcomer {
  readonly own: OwnPart;
  readonly priority: number;
}

/** The needs of a row: pages of its own, and some of others. */
interface Needs {
  readonly placement: PagePlacement;
  readonly own: OwnPart;
  readonly beside: PagesBeside;
}

/** One round of letting rows in. What the rows that live now will need is looked at once. */
export class Admission {
  /** The pages that are taken if all rows come to their full length at once, of each engine that keeps some. */
  private readonly inFull: PageCounts[];
  /** The pages that rows will need that wait until what they begin with has been computed: nobody else gets them. */
  private promised = NO_PAGES;
  /** Made only when it matters: mostly there is room for everything in full. */
  private forecast: GrowthForecast | undefined;
  private places: number;

  constructor(private readonly setup: AdmissionSetup) {
    this.places = setup.places;
    const inFull = setup.kept.map(() => ({ ...NO_PAGES }));
    for (const { rows, tree } of setup.runs) {
      if (tree) for (const sum of inFull) addTo(sum, tree.commonPages);
      for (const { ownPlacement, keeper } of rows) {
        const sum = inFull[keeper];
        if (sum) addTo(sum, ownPlacement.pages);
      }
    }
    this.inFull = inFull;
  }

  /**
   * Pages for a row, what its prompt needs taken; undefined if there is no room for it beside the others, now or later.
   * @param row the number that it will have @param path what `expect` returned for it: it waits no more
   */
  admit(row: RowId, lengths: RowLengths, path?: PrefixPath, priority = 0): RowPages | undefined {
    const { tree } = this.setup.run;
    if (!tree || !path) return this.take(row, lengths, priority);
    const { pages: whole, source, tokens } = tree.match(path);
    const sharing = (
      pages: number,
      from: PrefixMatch['source'],
      upTo = pages * this.pageTokens,
    ): RowPages | undefined =>
      this.take(row, lengths, priority, {
        tree,
        path,
        match: { pages, source: from, tokens: upTo },
        placement: path.placement,
      });
    // Where it is that tight, the page in which the prefix ends stands in nobody's way; nor does a prefix that is in
    // memory, of a row that could be on disk, when there is no other to wait for.
    const pages =
      sharing(whole, source, tokens) ??
      (source && sharing(whole, undefined)) ??
      (path.placement.pages.disk > 0 && this.setup.run.rows.size === 0 ? sharing(0, undefined) : undefined) ??
      // Nor do pages that are kept whole for others alone.
      (path.placement.wholePages < path.placement.length && this.setup.run.rows.size === 0
        ? this.take(row, lengths, priority)
        : undefined);
    if (pages) tree.leave(path);
    return pages;
  }

  /**
   * Pages for the beginning of a row's prompt, where it is worth computing by itself before the row comes in; 'coming'
   * where that is under way, and the row should wait for it; undefined where it should come in as it is, or there is no
   * room for both, or none but what others wait for.
   */
  admitPrefix(row: RowId, lengths: RowLengths, path: PrefixPath, priority = 0): RowPages | 'coming' | undefined {
    const { tree } = this.setup.run;
    if (!tree) return undefined;
    const match = tree.match(path);
    const { tokens, saved } = tree.worth(path, match);
    if (saved < WORTHWHILE_TOKENS) return undefined;
    if (match.coming > match.tokens) {
      this.promise(path, lengths, match.coming);
      return 'coming';
    }
    if (tokens <= match.tokens) return undefined;
    const { own, beside } = this.needs(lengths, { tree, path, match, placement: path.placement });
    // What rows wait for is not given up for what others do: they would take turns at computing it.
    const others = plus(tree.wanted, beside.wanted, -1);
    if (!this.fits({ own, priority }, { idle: plus(beside.idle, others), sole: plus(beside.sole, others) }))
      return undefined;
    const placement = path.placement.first(Math.ceil(tokens / this.pageTokens));
    const pages = this.take(row, { promptTokens: tokens, positions: tokens }, priority, {
      tree,
      path,
      match,
      placement,
    });
    if (pages) this.promise(path, lengths, tokens);
    return pages;
  }

  /**
   * Tells whether a row that decodes may come up to position `end` with the next sweep. Where rows are counted as they
   * grow, a token a sweep, one that comes faster needs its pages before others have given back theirs.
   */
  hasten(row: RowPages, end: number): boolean {
    const { sweeps } = this.setup;
    if (this.fitsInFull(this.promised, 1, row.keeper)) return true;
    if (!sweeps) return false;
    this.forecast ??= this.forecastOf(sweeps);
    const own = ownPart(row, this.pageTokens);
    return this.forecast.hastens(own, end - 1 - own.shift);
  }

  /** The row gives up its place for a while, and keeps what it has: from now on it is counted in full. */
  pause(row: RowPages): void {
    row.paused = true;
    this.forecast = undefined;
  }

  /** It keeps its place after all. */
  unpause(row: RowPages): void {
    row.paused = false;
    this.forecast = undefined;
  }

  /** It has a place again: what is left of its prompt comes after that of all rows that are there. */
  resume(row: RowPages): void {
    const { rows } = this.setup.run;
    row.paused = false;
    rows.delete(row);
    rows.add(row);
    this.forecast = undefined;
  }

  /** Keeps what a row will need after its first tokens, once they have been computed. */
  private promise({ placement }: PrefixPath, { positions, promptTokens }: RowLengths, tokens: number): void {
    const sharedPages = Math.floor(tokens / this.pageTokens);
    const own = ownPart(
      {
        lengths: { positions, promptTokens },
        placement: placement.behind(sharedPages),
        next: tokens,
        sharedPages,
        inPrompt: true,
      },
      this.pageTokens,
    );
    this.promised = plus(this.promised, own.placement.pages);
  }

  private take(row: RowId, lengths: RowLengths, priority: number, taken?: Taken): RowPages | undefined {
    const {
      run: { rows },
      sweeps,
      pace,
      kept,
      onRelease,
    } = this.setup;
    const { placement, own, beside } = this.needs(lengths, taken);
    const slot = kept.length > 1 ? this.nextSlot : 0;
    const keeper = this.keeperOf(placement.pages, slot);
    const lists = kept[keeper];
    if (!lists) return undefined;
    // If as many rows like this one would not fit in full, they come in at a pace; but time goes by only while a row
    // lives.
    const paced = sweeps?.staggered === true && rows.size > 0 && !this.fitsInFull(own.placement.pages, this.places);
    if ((paced && !pace.open) || !this.fits({ own, priority }, beside, keeper)) return undefined;
    if (lists.states && lists.states.used >= lists.states.capacity) return undefined;
    const overtakes = this.overtakes(priority);
    const prefix = taken && {
      tree: taken.tree,
      nodes: taken.tree.pagesOf(taken.path, Math.min(lengths.promptTokens, placement.wholePages * this.pageTokens)),
      match: taken.match,
    };
    const pages: RowPages = new RowPages(
      row,
      lengths,
      placement,
      this.pageTokens,
      lists,
      () => {
        rows.delete(pages);
        pace.ended(own, own.placement, pages.next - own.shift);
        onRelease();
      },
      prefix,
      onRelease,
      keeper,
    );
    pages.priority = priority;
    pages.slot = slot;
    rows.add(pages);
    if (overtakes) this.forecast = undefined;
    else this.forecast?.add(own, beside.sole);
    pace.admitted(own, own.placement);
    this.inFull[keeper] = plus(this.inFullOf(keeper), plus(own.placement.pages, beside.idle));
    this.places--;
    return pages;
  }

  private needs(lengths: RowLengths, taken?: Taken): Needs {
    const { pages = 0, tokens = lengths.given ?? 0 } = taken?.match ?? {};
    const placement = (taken?.placement ?? placePages(lengths.positions, this.setup.rules, lengths.promptTokens))
      .keeping(taken ? Math.ceil(taken.tree.commonTokens(taken.path) / this.pageTokens) : 0)
      .behind(pages);
    const own = ownPart({ lengths, placement, next: tokens, sharedPages: pages, inPrompt: true }, this.pageTokens);
    return { placement, own, beside: taken ? taken.tree.beside(taken.path, taken.match) : NOTHING_BESIDE };
  }

  /**
   * The batch that the next row joins, as far as anybody knows before the schedule has been asked: it goes where most
   * places are free.
   */
  private get nextSlot(): number {
    const taken = new Array<number>(this.setup.slots).fill(0);
    for (const row of this.setup.run.rows) if (row.advances) taken[row.slot] = (taken[row.slot] ?? 0) + 1;
    return taken.indexOf(Math.min(...taken));
  }

  /**
   * The engine that keeps the next row: of those that have room for it the one with the fewest rows of its batch, since
   * the others wait for whoever attends to the most; of these the one that keeps the fewest pages.
   */
  private keeperOf(pages: PageCounts, slot: number): number {
    const { kept, run } = this.setup;
    if (kept.length === 1) return 0;
    const beside = kept.map(() => 0);
    for (const row of run.rows)
      if (row.advances && row.slot === slot) beside[row.keeper] = (beside[row.keeper] ?? 0) + 1;
    const memory = (keeper: number): number => this.inFullOf(keeper).memory;
    return kept
      .map((_, keeper) => ({ keeper, full: Number(!this.fitsInFull(pages, 1, keeper)), rows: beside[keeper] ?? 0 }))
      .reduce((best, each) =>
        (each.full - best.full || each.rows - best.rows || memory(each.keeper) - memory(best.keeper)) < 0 ? each : best,
      ).keeper;
  }

  private inFullOf(keeper: number): PageCounts {
    return this.inFull[keeper] ?? NO_PAGES;
  }

  /** @param keeper where. Default: in the first engine, which is all there is where rows share what they begin with */
  private fitsInFull(placement: PageCounts, times = 1, keeper = 0): boolean {
    return within(plus(this.inFullOf(keeper), placement, times), this.setup.size);
  }

  private fits(newcomer: Newcomer, { idle, sole }: Pick<PagesBeside, 'idle' | 'sole'>, keeper?: number): boolean {
    const { own, priority } = newcomer;
    if (this.fitsInFull(plus(own.placement.pages, plus(idle, this.promised)), 1, keeper)) return true;
    if (!this.setup.sweeps) return false;
    // A page that comes free with another row's end does not if this one holds it by then.
    const held = plus(sole, this.promised);
    // Rows that it overtakes end later than they would have.
    if (this.overtakes(priority)) return this.forecastOf(this.setup.sweeps, newcomer).holds(held);
    this.forecast ??= this.forecastOf(this.setup.sweeps);
    return this.forecast.fits(own, held);
  }

  /**
   * Tells whether there are rows whose prompts would be computed after that of one of this priority which comes now.
   */
  private overtakes(priority: number): boolean {
    for (const row of this.setup.run.rows)
      if (row.priority < priority && row.next < row.lengths.promptTokens) return true;
    return false;
  }

  /**
   * Rows in the order in which their prompts are computed. Those of other runs are counted in full, since nothing is
   * known of their pace; so are those that have given up their places for a while.
   */
  private forecastOf(sweeps: SweepRules, newcomer?: Newcomer): GrowthForecast {
    const { run, runs, size } = this.setup;
    const forecast = new GrowthForecast(plus(size, run.tree?.lastingPages ?? NO_PAGES, -1), this.pageTokens, sweeps);
    const growing: Newcomer[] = [];
    for (const row of run.rows) {
      if (row.paused) forecast.keep(row.ownPlacement.pages);
      else growing.push({ own: ownPart(row, this.pageTokens), priority: row.priority });
    }
    if (newcomer) growing.push(newcomer);
    growing.sort((a, b) => b.priority - a.priority);
    for (const { own } of growing) forecast.add(own);
    for (const other of runs) {
      if (other === run) continue;
      if (other.tree) forecast.keep(other.tree.commonPages);
      for (const { ownPlacement } of other.rows) forecast.keep(ownPlacement.pages);
    }
    return forecast;
  }

  private get pageTokens(): number {
    return this.setup.rules.pageTokens;
  }
}

function addTo(sum: Record<PageTier, number>, { gpu, memory, disk }: PageCounts): void {
  sum.gpu += gpu;
  sum.memory += memory;
  sum.disk += disk;
}

interface OwnPart extends GrowingRow {
  readonly shift: number;
}

/**
 * A row without the pages that others hold, too: as memory sees it, a shorter row. Its positions are counted from
 * `shift` on. Pure.
 */
function ownPart(
  {
    lengths,
    placement,
    next,
    sharedPages,
    inPrompt,
  }: Pick<RowPages, 'lengths' | 'placement' | 'next' | 'sharedPages' | 'inPrompt'>,
  pageTokens: number,
): OwnPart {
  const shift = sharedPages * pageTokens;
  return {
    promptTokens: lengths.promptTokens - shift,
    positions: lengths.positions - shift,
    placement: placement.without(sharedPages),
    next: Math.max(0, next - shift),
    inPrompt,
    shift,
  };
}
