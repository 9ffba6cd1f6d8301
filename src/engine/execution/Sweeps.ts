import type { Grid, RowId, Square } from '../grid/Square.js';
import type { Admission } from '../memory/PagePool.js';
import type { KnownStretch } from '../schedules/PathChecker.js';
import { nextSweep, withPrefixes } from '../schedules/nextSweep.js';
import type { Schedule } from '../schedules/Schedule.js';
import type { HeldRows } from './HeldRows.js';
import type { LiveRow } from './LiveRow.js';
import type { Admitted } from './RowAdmission.js';
import type { SquareWindow } from './SquareWindow.js';

/**
 * The share of rows with forced tokens from which on sweeps wait for the heads of those before: it costs a moment in
 * which nothing is computed, and saves every other sweep.
 */
const WORTH_WAITING = 0.25;

export interface SweepsParts<Result> {
  readonly schedule: Schedule;
  readonly rows: HeldRows<LiveRow<Result>>;
  readonly window: SquareWindow;
  /** Rows that come in with the sweep that is planned. */
  admit(grid: Grid, state: unknown, ended: ReadonlySet<RowId>): Admitted;
  /** No square that is still to come holds the row. */
  forget(live: LiveRow<Result>): void;
  /** A sweep has been planned. */
  announced(squares: Iterable<Square>, grid: Grid): Iterable<Square>;
}

/** Asks the schedule for one sweep after the other, when the squares of the one before have been handed out. */
export class Sweeps<Result> {
  private state: unknown;
  private squares: Iterator<Square> | undefined;
  private ended = new Set<RowId>();
  /** Rows of which tokens are known that have not been issued. */
  private readonly forced = new Set<RowId>();
  /** The share of the rows sampled lately that have tokens which their formats force. */
  private forcing = 0;

  constructor(
    private readonly parts: SweepsParts<Result>,
    private grid: Grid,
  ) {}

  start(grid: Grid): void {
    this.grid = grid;
    this.state = this.parts.schedule.start(grid);
  }

  next(): Square | undefined {
    const square = this.squares?.next();
    if (square && square.done !== true) return square.value;
    this.squares = undefined;
    const { rows, window, schedule } = this.parts;
    // A sweep that is planned before the last one's heads have been heard advances rows by a token, and samples
    // nothing of those of which more are known by then.
    if (this.forcing >= WORTH_WAITING && !window.idle) return undefined;
    this.forgetEnded();
    rows.pages.sweepPlanned(1 / (this.grid.microBatches ?? 1));
    const { admitted, paused } = this.parts.admit(this.grid, this.state, this.ended);
    if (admitted.length === 0 && rows.size === 0) return undefined;
    const { state, squares } = nextSweep(schedule, this.state, {
      admitted,
      ended: paused.size > 0 ? new Set([...this.ended, ...paused]) : this.ended,
      known: this.knownAhead(),
    });
    this.ended = new Set();
    this.state = state;
    const own = withPrefixes(squares, (row) => rows.get(row)?.begin);
    this.squares = this.parts.announced(own, this.grid)[Symbol.iterator]();
    const first = this.squares.next();
    return first.done === true ? undefined : first.value;
  }

  /** The row is over: squares that were planned before may still hold it. */
  end(row: RowId): void {
    this.ended.add(row);
  }

  /** Tokens of a row are known. */
  knows(live: LiveRow<Result>, stretch: KnownStretch): void {
    live.known = stretch;
    this.forced.add(live.id);
  }

  /** Notes how many of the rows that were sampled together have tokens that are forced. */
  sampled(rows: number, withForced: number): void {
    if (rows > 0) this.forcing = (this.forcing + withForced / rows) / 2;
  }

  /** Rows that may be advanced by more than a token, and how far. */
  private knownAhead(): ReadonlyMap<RowId, number> {
    const ahead = new Map<RowId, number>();
    const { rows, window } = this.parts;
    let admission: Admission | undefined;
    for (const row of this.forced) {
      const live = rows.get(row);
      if (!live?.known || live.ended || live.known.end <= live.pages.next + 1) {
        this.forced.delete(row);
        continue;
      }
      if (live.pages.paused) continue;
      const end = Math.min(live.known.end, live.pages.next + live.pages.mostTokens);
      admission ??= rows.pages.admission(0);
      if (!admission.hasten(live.pages, end)) continue;
      window.path.knows(row, live.known);
      ahead.set(row, end - (live.begin?.firstPosition ?? 0));
    }
    return ahead;
  }

  /**
   * No square of a sweep is left, and the next sweep is planned without the rows that ended: what they hold is free
   * once nothing under way uses it.
   */
  private forgetEnded(): void {
    for (const row of this.ended) {
      const live = this.parts.rows.get(row);
      if (!live) continue;
      this.parts.forget(live);
      this.parts.rows.releaseIfUnused(row);
    }
  }
}
