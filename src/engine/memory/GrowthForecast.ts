import { NO_PAGES, PAGE_TIERS, plus, type PageTier, type PageCounts } from '../grid/pageCounts.js';
import type { PagePlacement, RowLengths } from './PagePlacement.js';

/** A row as the forecast sees it. */
export interface GrowingRow extends RowLengths {
  readonly placement: PagePlacement;
  /** The first position that is not computed yet, nor about to be. */
  readonly next: number;
  /** Some of its prompt is under way, or to come: it holds what a prompt holds. Default: only while some is to come. */
  readonly inPrompt?: boolean | undefined;
}

/** `endsFrom`: where it is at least, as far as its end goes. Default: `next`. */
interface CountedRow extends GrowingRow {
  readonly endsFrom?: number;
}

/**
 * The promises of a schedule about every sweep: each row that decodes advances by a token, and prompts get the rest of
 * the square, oldest first.
 */
export interface SweepRules {
  readonly tokensPerSquare: number;
  readonly rowsPerSlot: number;
}

/**
 * How many pages rows will hold in each of the sweeps to come, at most (where micro-batches sweep in turn, in each of
 * their rounds, counted from now: each row advances once in it): rows of different ages share memory at their
 * average instead of their peak, which is what the diagonal schedule's larger block comes from (FlexGen, appendix A.2).
 * A row is counted as if it grew as early and ended as late as it can, so what fits here fits in fact.
 */
export class GrowthForecast {
  /** Changes of the pages held, by sweep; index 0 is the next sweep. */
  private readonly changes: Record<PageTier, Int32Array> = {
    gpu: new Int32Array(256),
    memory: new Int32Array(256),
    disk: new Int32Array(256),
  };
  /** Sweeps that anything is known of. */
  private horizon = 0;
  /** Prompt tokens that come before those of a further row. */
  private promptTokens = 0;
  /** Pages that are held all the time. */
  private constant = NO_PAGES;

  constructor(
    private readonly capacity: PageCounts,
    private readonly pageTokens: number,
    private readonly sweeps: SweepRules,
  ) {}

  /** Counts a row; rows in order of admission. @param beside pages that are held from now on, whoever ends */
  add(row: GrowingRow, beside = NO_PAGES): void {
    this.count(row, 1);
    this.keep(beside);
    this.promptTokens += Math.max(0, row.promptTokens - row.next);
  }

  /** Counts pages that are held all the time: of rows that do not grow, or of which nothing else is known. */
  keep(pages: PageCounts): void {
    this.constant = plus(this.constant, pages);
  }

  /** Tells whether all that was added fits, with some pages that are held for good beside it, in every sweep. */
  holds(beside = NO_PAGES): boolean {
    const held = plus(this.constant, beside);
    return PAGE_TIERS.every((tier) => this.peak(this.changes[tier]) + held[tier] <= this.capacity[tier]);
  }

  /**
   * Tells whether a row, and some pages that are held for good beside it, fit beside those that were added, in every
   * sweep.
   */
  fits(row: CountedRow, beside = NO_PAGES): boolean {
    this.count(row, 1);
    const fits = this.holds(beside);
    this.count(row, -1);
    return fits;
  }

  /**
   * Counts a row that decodes as one that has come to position `next`, if that fits; it must have been added as it is
   * given.
   */
  hastens(row: GrowingRow, next: number): boolean {
    // Whether it is, the schedule has yet to say: it grows at once, and gives nothing back earlier.
    const hastened = { ...row, next, endsFrom: row.next };
    this.count(row, -1);
    if (this.fits(hastened)) {
      this.count(hastened, 1);
      return true;
    }
    this.count(row, 1);
    return false;
  }

  /** The most that is held at once. */
  private peak(changes: Int32Array): number {
    let held = 0;
    let most = 0;
    for (let sweep = 0; sweep < this.horizon; sweep++) {
      held += changes[sweep] ?? 0;
      if (held > most) most = held;
    }
    return most;
  }

  private count(
    { promptTokens, positions, placement, next, endsFrom = next, inPrompt }: CountedRow,
    sign: 1 | -1,
  ): void {
    const { tokensPerSquare, rowsPerSlot } = this.sweeps;
    const remaining = Math.max(0, Math.min(promptTokens, positions) - next);
    // Sweeps until the prompt is computed, at best and at worst; for a row that decodes, minus what it has decoded.
    const earliest = remaining > 0 ? Math.ceil(remaining / tokensPerSquare) : promptTokens - next;
    const latest =
      remaining > 0
        ? Math.ceil((this.promptTokens + remaining) / Math.max(1, tokensPerSquare - rowsPerSlot + 1))
        : promptTokens - endsFrom;
    const decoded = Math.max(0, positions - promptTokens);
    // One sweep more: what a row held is given back when its last square has come back.
    const end = Math.max(0, latest + decoded) + 1;
    this.reserve(end + 1);
    let begun = Math.ceil(Math.max(next, Math.min(promptTokens, positions), 1) / this.pageTokens);
    let held = placement.held(begun);
    this.change(0, held, sign);
    if (remaining > 0 || inPrompt === true) {
      // Beside that, until the prompt has been through.
      const more = plus(placement.held(begun, true), held, -1);
      this.change(0, more, sign);
      this.change(Math.min(end, Math.max(0, latest) + 1), plus(NO_PAGES, more, -1), sign);
    }
    const pages = placement.length;
    for (; begun < pages; begun++) {
      // Position p is computed in sweep (earliest + p - promptTokens + 1), counted from 1.
      const sweep = earliest + begun * this.pageTokens - promptTokens;
      const grown = placement.held(begun + 1);
      this.change(Math.max(0, sweep), plus(grown, held, -1), sign);
      held = grown;
    }
    this.change(end, plus(NO_PAGES, held, -1), sign);
  }

  private change(sweep: number, pages: PageCounts, sign: 1 | -1): void {
    for (const tier of PAGE_TIERS) {
      const changes = this.changes[tier];
      changes[sweep] = (changes[sweep] ?? 0) + sign * pages[tier];
    }
  }

  private reserve(sweeps: number): void {
    this.horizon = Math.max(this.horizon, sweeps);
    if (sweeps <= this.changes.memory.length) return;
    for (const tier of PAGE_TIERS) {
      const grown = new Int32Array(2 ** Math.ceil(Math.log2(sweeps)));
      grown.set(this.changes[tier]);
      this.changes[tier] = grown;
    }
  }
}
