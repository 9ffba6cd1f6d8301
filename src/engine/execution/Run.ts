import type { Subscriber } from 'rxjs';
import { InterruptedError } from '../../errors/InterruptedError.js';
import { ScheduleError } from '../../errors/ScheduleError.js';
import type { Move, Movement } from '../memory/movement.js';
import { requiredMoves } from '../memory/requiredMoves.js';
import type { PagePool, RunPages } from '../memory/PagePool.js';
import type { PageTable, RowPages } from '../memory/RowPages.js';
import { PathChecker } from '../schedules/PathChecker.js';
import type { AdmittedRow, Schedule } from '../schedules/Schedule.js';
import type { Grid, RowId, RowRange, Square } from '../schedules/Square.js';
import { CompositionChecker } from './CompositionChecker.js';
import type { Completion, Device } from './Device.js';
import { issuedSquare, type IssuedSquare } from './IssuedSquare.js';
import type { RowFeed } from './RowFeed.js';
import type { RunRow } from './RunRow.js';
import type { RunRecorder } from './RunRecorder.js';
import type { Task, TaskEvent, TaskName } from './Task.js';

/** A task as a stage states it; which square it is for is added by the run. */
export type StageTask = Pick<Task, 'name' | 'queue'> & Partial<Pick<Task, 'part' | 'bytes' | 'from' | 'to'>>;

/** What the stage operators need to know of a run. */
export interface StageContext {
  readonly grid: Grid;
  readonly device: Device;
  readonly movement: Movement;
  /** The KV pages of a row that is under way. */
  pagesOf(row: RowId): PageTable | undefined;
  /** Submits one task for the square and notes its event there. */
  issue(square: IssuedSquare, task: StageTask, after: readonly TaskEvent[]): TaskEvent;
  /** Submits the hops of some routes; returns the last event of each. */
  issueMoves(square: IssuedSquare, name: TaskName, routes: readonly (readonly Move[])[], after: readonly TaskEvent[]): TaskEvent[];
}

export interface RunSetup<Result> {
  readonly id: number;
  readonly device: Device;
  readonly grid: Grid;
  readonly movement: Movement;
  readonly schedule: Schedule;
  readonly pool: PagePool;
  /** Squares that may be under way at once. */
  readonly window: number;
  readonly feed: RowFeed<Result>;
  readonly recorder: RunRecorder;
  /** Most rows that may be under way together, at any time. Default: as many as the grid has places. */
  readonly mostRows?: (() => number) | undefined;
  readonly signal?: AbortSignal | undefined;
}

interface LiveRow<Result> {
  readonly row: RunRow<Result>;
  readonly pages: RowPages;
  /** Batches under way that hold the row. */
  uses: number;
  /** Its result is out; squares that were planned before may still hold it. */
  ended: boolean;
  /** No square that is still to come holds it. */
  forgotten: boolean;
}

/**
 * One pass of rows through a device: admits rows as memory allows, asks the schedule for squares, lets as many of them into the stages as the
 * window has credits, and turns what the head finds into results. It owns everything that the rows hold, and gives all of it back.
 */
export class Run<Result> implements StageContext {
  readonly grid: Grid;
  readonly device: Device;
  readonly movement: Movement;
  /** Resolved when nothing of the run is left on the device. */
  readonly drained: Promise<void>;

  private readonly checker: PathChecker;
  private readonly composition: CompositionChecker;
  private readonly live = new Map<RowId, LiveRow<Result>>();
  /** Squares under way of each batch; they share one array of rows. */
  private readonly underWay = new Map<readonly RowRange[], number>();
  private readonly pages: RunPages;
  private scheduleState: unknown;
  private squares: Iterator<Square> | undefined;
  /** The next square, while there is no memory for it. */
  private held: Square | undefined;
  private ended = new Set<RowId>();
  private nextRow = 0;
  private credits: number;
  private outstanding = 0;
  private subscriber: Subscriber<IssuedSquare> | undefined;
  private pumping = false;
  private pumpAsked = false;
  private closed = false;
  private isDrained = false;
  private resolveDrained: () => void = () => undefined;
  private readonly stops: (() => void)[] = [];

  constructor(private readonly setup: RunSetup<Result>) {
    this.grid = setup.grid;
    this.device = setup.device;
    this.movement = setup.movement;
    this.credits = setup.window;
    this.checker = new PathChecker(setup.grid);
    this.composition = new CompositionChecker(requiredMoves(setup.movement, (row) => this.pagesOf(row)));
    this.scheduleState = setup.schedule.start(setup.grid);
    this.drained = new Promise((resolve) => (this.resolveDrained = resolve));
    this.device.openRun(setup.id, { slots: setup.grid.slots, tokensPerSquare: setup.grid.tokensPerSquare });
    this.pages = setup.pool.openRun(setup.schedule.steady && { ...setup.grid, staggered: setup.schedule.steady === 'staggered' });
    const completions = this.device.completed$.subscribe((burst) => {
      setup.recorder.timed(() => {
        this.complete(burst);
      });
    });
    const releases = setup.pool.released$.subscribe(() => {
      this.askPump();
    });
    setup.feed.onRow = () => {
      this.askPump();
    };
    const abort = (): void => {
      this.fail(new InterruptedError(setup.signal?.reason));
    };
    setup.signal?.addEventListener('abort', abort, { once: true });
    this.stops.push(
      () => {
        completions.unsubscribe();
      },
      () => {
        releases.unsubscribe();
      },
      () => setup.signal?.removeEventListener('abort', abort),
    );
  }

  /** Whether anybody waits for the run's squares; `squares(run)` calls this once. */
  connect(subscriber: Subscriber<IssuedSquare>): void {
    if (this.subscriber) throw new RangeError('the squares of a run can be subscribed to once');
    this.subscriber = subscriber;
    if (this.setup.signal?.aborted) this.fail(new InterruptedError(this.setup.signal.reason));
    else this.setup.feed.start();
  }

  pagesOf(row: RowId): PageTable | undefined {
    return this.live.get(row)?.pages;
  }

  issue(square: IssuedSquare, task: StageTask, after: readonly TaskEvent[]): TaskEvent {
    if (task.name === 'compute') this.composition.computes(square);
    const { pass, layer, slot, rows, events } = square;
    const waitsFor = events.barrier.length > 0 ? [...after, ...events.barrier] : after;
    const event = this.device.submit({ bytes: 0, ...task, run: this.setup.id, pass, layer, slot, rows }, waitsFor);
    this.outstanding++;
    events.all.push(event);
    return event;
  }

  issueMoves(square: IssuedSquare, name: TaskName, routes: readonly (readonly Move[])[], after: readonly TaskEvent[]): TaskEvent[] {
    this.composition.moves(square, name, routes.length);
    const ends: TaskEvent[] = [];
    for (const route of routes) {
      let last: TaskEvent | undefined;
      for (const move of route) last = this.issue(square, { name, ...move }, last ? [last] : after);
      if (last) ends.push(last);
    }
    return ends;
  }

  /** Called for every square that has passed all stages: returns its credit, and the results of rows that ended with it. */
  retire(square: IssuedSquare): Result[] {
    this.composition.retires(square);
    const results: Result[] = [];
    const { head } = square.events;
    this.credits++;
    const left = this.leave(square.rows);
    for (const { row } of left || head ? square.rows : []) {
      const live = this.live.get(row);
      if (!live) continue;
      if (left) live.uses--;
      if (head && !live.ended) {
        const result = live.row.accept(head, row);
        if (result !== undefined) {
          results.push(result);
          live.ended = true;
          this.ended.add(row);
          if (this.checker.missing(row) === 0) this.forget(row, live);
        }
      }
      this.releaseIfUnused(row, live);
    }
    this.setup.recorder.rows(this.live.size);
    this.askPump();
    return results;
  }

  /** Ends the run before its time: nothing more is issued, `drained` follows when the device is done with what was. Idempotent. */
  close(): void {
    if (this.closed) return;
    this.closed = true;
    this.setup.feed.close();
    for (const stop of this.stops.slice(1)) stop();
    this.device.cancelRun(this.setup.id);
    this.finishDraining();
  }

  /** Ends the run with an error. */
  fail(error: Error): void {
    if (this.closed) return;
    this.close();
    this.subscriber?.error(error);
  }

  private complete(burst: readonly Completion[]): void {
    for (const { event } of burst) {
      if (event.task.run !== this.setup.id) continue;
      this.outstanding--;
      this.setup.recorder.completed(event);
    }
    if (this.closed) this.finishDraining();
  }

  private releaseIfUnused(row: RowId, live: LiveRow<Result>): void {
    if (!live.forgotten || live.uses > 0) return;
    this.live.delete(row);
    this.device.closeRow(this.setup.id, row);
    live.pages.release();
  }

  private askPump(): void {
    if (this.pumpAsked || this.closed) return;
    this.pumpAsked = true;
    // One turn later, so that a burst of arrivals or completions is seen as one.
    setImmediate(() => {
      this.pumpAsked = false;
      this.setup.recorder.timed(() => {
        this.pump();
      });
    });
  }

  /** Lets squares into the stages while there are credits. */
  private pump(): void {
    const { subscriber } = this;
    if (this.pumping || this.closed || !subscriber) return;
    this.pumping = true;
    try {
      while (this.credits > 0 && !subscriber.closed) {
        const square = this.held ?? this.nextSquare();
        if (!square) break;
        this.held = this.makeRoom(square) ? undefined : square;
        if (this.held) break;
        this.checker.accept(square);
        this.credits--;
        this.enter(square.rows);
        subscriber.next(issuedSquare(square));
      }
    } catch (error) {
      this.fail(error instanceof Error ? error : new Error(String(error)));
    } finally {
      this.pumping = false;
    }
    if (this.live.size > 0 && this.credits === this.setup.window && !this.closed) {
      const rows = [...this.live.keys()].slice(0, 3).join(', ');
      if (this.held) this.fail(new ScheduleError('capacity', `there is no memory for the next square, and none will come free: the schedule's rows (${rows}, …) grow or end otherwise than it promised`));
      else this.fail(new ScheduleError('complete', `the schedule has no square left, but rows (${rows}, …) are not complete`));
    }
    if (this.setup.feed.failure) this.fail(this.setup.feed.failure);
    else if (this.setup.feed.ended && this.live.size === 0 && this.credits === this.setup.window) this.finish();
  }

  /** A square of the batch enters the window: with the first one, its rows are in use. */
  private enter(batch: readonly RowRange[]): void {
    const squares = this.underWay.get(batch) ?? 0;
    this.underWay.set(batch, squares + 1);
    if (squares > 0) return;
    for (const { row } of batch) {
      const live = this.live.get(row);
      if (live) live.uses++;
    }
  }

  /** A square of the batch leaves the window: whether it was the last one there. */
  private leave(batch: readonly RowRange[]): boolean {
    const squares = (this.underWay.get(batch) ?? 1) - 1;
    if (squares > 0) this.underWay.set(batch, squares);
    else this.underWay.delete(batch);
    return squares === 0;
  }

  private finish(): void {
    if (this.closed) return;
    this.close();
    this.subscriber?.complete();
  }

  private nextSquare(): Square | undefined {
    for (;;) {
      const square = this.squares?.next();
      if (square && square.done !== true) return square.value;
      this.squares = undefined;
      this.forgetEnded();
      this.pages.advance();
      const admitted = this.admit();
      if (admitted.length === 0 && this.live.size === 0) return undefined;
      const { state, squares } = this.setup.schedule.next(this.scheduleState, { admitted, ended: this.ended });
      this.ended = new Set();
      this.scheduleState = state;
      this.squares = squares[Symbol.iterator]();
      const first = this.squares.next();
      if (first.done !== true) return first.value;
      return undefined;
    }
  }

  /** No square of a sweep is left, and the next sweep is planned without the rows that ended: what they hold is free once nothing under way uses it. */
  private forgetEnded(): void {
    for (const row of this.ended) {
      const live = this.live.get(row);
      if (!live) continue;
      this.forget(row, live);
      this.releaseIfUnused(row, live);
    }
  }

  /** No square that is still to come holds the row. */
  private forget(row: RowId, live: LiveRow<Result>): void {
    if (live.forgotten) return;
    live.forgotten = true;
    this.checker.release(row);
  }

  /** Takes all pages that the square's rows need to come this far, or none of them. */
  private makeRoom(square: Square): boolean {
    // The batch's first layer has made room for all of them.
    if (square.layer > 0) return true;
    const growing: { readonly pages: RowPages; readonly end: number }[] = [];
    const lacking = { memory: 0, disk: 0 };
    for (const { row, firstPosition, tokens } of square.rows) {
      const pages = this.live.get(row)?.pages;
      const end = firstPosition + tokens;
      if (!pages || end <= pages.next) continue;
      growing.push({ pages, end });
      if (end <= pages.reach) continue;
      const { memory, disk } = pages.lacks(end);
      lacking.memory += memory;
      lacking.disk += disk;
    }
    if (!this.setup.pool.has(lacking)) return false;
    for (const { pages, end } of growing) pages.advance(end);
    return true;
  }

  /** Takes waiting rows for which there are places and memory, in order of arrival. */
  private admit(): AdmittedRow[] {
    const { feed, schedule, device, id, mostRows } = this.setup;
    const admitted: AdmittedRow[] = [];
    const places = schedule.free(this.scheduleState, this.ended);
    const taken = this.grid.slots * this.grid.rowsPerSlot - places;
    const free = mostRows ? Math.min(places, mostRows() - taken) : places;
    if (free <= 0 || !feed.peek()) return admitted;
    // The last rows of a block are through for the schedule, but still hold their pages: a block that began now would begin small.
    if (schedule.steady === 'blocks' && this.live.size > 0) return admitted;
    const admission = this.pages.admission(Math.min(free, feed.remaining));
    while (admitted.length < free) {
      const waiting = feed.peek();
      if (!waiting) break;
      const { sequence, newTokens } = waiting;
      const promptTokens = sequence.tokens.length;
      const pages = admission.admit({ promptTokens, positions: Math.max(1, promptTokens + newTokens - 1) });
      if (!pages) break;
      feed.take();
      const row = this.nextRow++;
      this.live.set(row, { row: waiting, pages, uses: 0, ended: false, forgotten: false });
      device.openRow(id, row, sequence, pages);
      const coming = { row, promptTokens, newTokens };
      this.checker.admit(coming);
      admitted.push(coming);
      this.setup.recorder.prompt(promptTokens);
    }
    return admitted;
  }

  private finishDraining(): void {
    if (this.outstanding > 0 || this.isDrained) return;
    this.isDrained = true;
    this.stops[0]?.();
    for (const [row, { pages }] of this.live) {
      this.device.closeRow(this.setup.id, row);
      pages.release();
    }
    this.live.clear();
    this.pages.close();
    this.device.closeRun(this.setup.id);
    this.resolveDrained();
  }
}
