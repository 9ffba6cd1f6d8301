import { Subscription, type Observable, type Subscriber } from 'rxjs';
import { InterruptedError } from '../../errors/InterruptedError.js';
import { UsageError } from '../../errors/UsageError.js';
import type { Move, Movement } from '../memory/movement.js';
import { NO_PAGES, plus } from '../grid/pageCounts.js';
import type { PagePool, RunPages, SteadySweeps } from '../memory/PagePool.js';
import { requiredMoves } from '../memory/requiredMoves.js';
import type { RowPages } from '../memory/RowPages.js';
import type { PageTable } from '../grid/PageTable.js';
import { PathChecker } from '../schedules/PathChecker.js';
import { layerBounds, type Grid, type Batch, type RowId, type Square } from '../grid/Square.js';
import { PeerConnection, type Peers } from '../peers/PeerConnection.js';
import type { HiddenMessage, PeerMessage } from '../peers/PeerMessage.js';
import { CompositionChecker } from './CompositionChecker.js';
import type { Completion, Device } from '../grid/Device.js';
import { issuedSquare, type IssuedSquare } from './IssuedSquare.js';
import { LastStores } from './LastStores.js';
import { onAbort } from './onAbort.js';
import type { RunRecorder } from './RunRecorder.js';
import type { StageContext, StageTask } from './StageContext.js';
import type { TaskEvent, TaskName } from '../grid/Task.js';

export interface SquareRunSetup {
  readonly id: number;
  readonly device: Device;
  readonly grid: Grid;
  readonly movement: Movement;
  readonly pool: PagePool;
  /** Squares that may be under way at once. */
  readonly window: number;
  readonly recorder: RunRecorder;
  readonly signal?: AbortSignal | undefined;
  /** The engines that have the model's other layers, where the grid is a part of them. */
  readonly peers?: Peers | undefined;
  /** Rows whose prompts begin alike share what is computed of that. Default false. */
  readonly sharePrefixes?: boolean;
}

/** A row that the run holds memory for. */
export interface HeldRow {
  readonly pages: RowPages;
  /** Batches under way that hold the row. */
  uses: number;
  /** No square that is still to come holds it. */
  forgotten: boolean;
}

/** What operators need of a run, whoever decides on its squares. */
export interface RunOfSquares<Result> extends StageContext {
  /** Whether all of its squares have come, and have passed all stages. */
  readonly finished: boolean;
  /**
   * Results that are not a square's of this run: those of rows whose tokens are sampled elsewhere. Completes when
   * squares under way will lead to nothing.
   */
  readonly returned$: Observable<Result>;
  connect(subscriber: Subscriber<IssuedSquare>): void;
  close(error?: Error): void;
  /** Ends the run with an error, which its squares end with, too. */
  fail(error: unknown): void;
  retire(square: IssuedSquare): Result[];
}

/**
 * Lets squares into the stages as the window has credits and memory has room, checks that they keep to the constraints
 * of a path, and owns what their rows hold. Which squares come, and what becomes of them, is up to the kind of run.
 */
export abstract class SquareRun<Row extends HeldRow> implements StageContext {
  readonly grid: Grid;
  readonly device: Device;
  readonly movement: Movement;
  readonly lastStores = new LastStores();
  /** Resolved when nothing of the run is left on the device. */
  readonly drained: Promise<void>;
  finished = false;

  protected readonly checker: PathChecker;
  protected readonly live = new Map<RowId, Row>();
  protected readonly pages: RunPages;
  protected readonly firstLayer: number;
  protected readonly lastLayer: number;
  protected readonly connection: PeerConnection | undefined;
  /** The next square, while there is no memory for it. */
  protected held: Square | undefined;
  protected subscriber: Subscriber<IssuedSquare> | undefined;
  protected closed = false;
  private readonly composition: CompositionChecker;
  /** Squares under way of each batch. */
  private readonly underWay = new Map<Batch, number>();
  private credits: number;
  private outstanding = 0;
  private failure: Error | undefined;
  /** Why the run has failed, where it has: whatever was thrown. */
  private reason: { readonly error: unknown } | undefined;
  private pumping = false;
  private pumpAsked = false;
  private isDrained = false;
  private resolveDrained: () => void = () => undefined;
  /** To what the device completes, for as long as anything of the run is there. */
  private readonly completions: Subscription;
  /** To memory that comes free, and to the caller's signal, until the run is closed. */
  private readonly listening = new Subscription();

  constructor(
    private readonly base: SquareRunSetup,
    steady: SteadySweeps | undefined,
  ) {
    const { id, device, grid, movement, pool, recorder, signal, peers, sharePrefixes = false } = base;
    this.grid = grid;
    this.device = device;
    this.movement = movement;
    this.credits = base.window;
    this.checker = new PathChecker(grid);
    this.composition = new CompositionChecker(requiredMoves(movement, (row) => this.pagesOf(row)));
    this.drained = new Promise((resolve) => (this.resolveDrained = resolve));
    const { first, last, embeds } = layerBounds(grid);
    this.firstLayer = first;
    this.lastLayer = last;
    this.connection = peers && new PeerConnection(peers, embeds, grid.slots, this.peerEvents());
    this.listening.add(
      signal &&
        onAbort(signal, (reason) => {
          this.fail(new InterruptedError(reason));
        }),
    );
    // What could be wrong with what the caller gave has shown by now: from here on there is something to give back.
    device.openRun(id, { slots: grid.slots, tokensPerSquare: grid.tokensPerSquare, peers: this.connection });
    this.pages = pool.openRun(steady, sharePrefixes, (page) => {
      this.freed?.(page);
    });
    this.completions = device.completed$.subscribe((burst) => {
      recorder.timed(() => {
        this.complete(burst);
      });
    });
    this.listening.add(
      pool.released$.subscribe(() => {
        this.askPump();
      }),
    );
  }

  /** Whether anybody waits for the run's squares; `squares(run)` calls this once. */
  connect(subscriber: Subscriber<IssuedSquare>): void {
    if (this.subscriber)
      throw new UsageError(
        'squares: found a run that has been subscribed to, expected one that has not: each subscription takes a run of its own',
      );
    this.subscriber = subscriber;
    if (this.closed) {
      subscriber.error(
        this.reason
          ? this.reason.error
          : new UsageError('squares: found a run that is closed, expected one that has not begun'),
      );
      return;
    }
    try {
      if (this.base.signal?.aborted) throw new InterruptedError(this.base.signal.reason);
      this.begin();
    } catch (error) {
      this.fail(error);
    }
  }

  pagesOf(row: RowId): PageTable | undefined {
    return this.live.get(row)?.pages;
  }

  issue(square: IssuedSquare, task: StageTask, after: readonly TaskEvent[]): TaskEvent {
    if (task.name === 'compute') this.composition.computes(square);
    const { batch, layer, events } = square;
    const waitsFor = events.barrier.length > 0 ? [...after, ...events.barrier] : after;
    const event = this.device.submit({ bytes: 0, ...task, run: this.base.id, batch, layer }, waitsFor);
    this.outstanding++;
    events.all.push(event);
    return event;
  }

  issueMoves(
    square: IssuedSquare,
    name: TaskName,
    routes: readonly (readonly Move[])[],
    after: readonly TaskEvent[],
  ): TaskEvent[] {
    this.composition.moves(square, name, routes.length);
    const ends: TaskEvent[] = [];
    for (const route of routes) {
      let last: TaskEvent | undefined;
      for (const move of route) last = this.issue(square, { name, ...move }, last ? [last] : after);
      if (last) ends.push(last);
    }
    return ends;
  }

  /**
   * Ends the run before its time: nothing more is issued, `drained` follows when the device is done with what was.
   * Idempotent.
   * @param error what peers are told; by default the first task's that has failed
   */
  close(error: Error | undefined = this.failure): void {
    if (this.closed) return;
    this.closed = true;
    this.closing();
    this.connection?.close(error);
    this.listening.unsubscribe();
    this.device.cancelRun(this.base.id);
    this.finishDraining();
  }

  /** Ends the run with an error, whatever was thrown. */
  fail(error: unknown): void {
    if (this.closed) return;
    this.reason = { error };
    this.close(error instanceof Error ? error : new Error(String(error)));
    this.subscriber?.error(error);
  }

  /**
   * Waits until nothing of the run is left on the device. @throws what a callback threw, where no error of the stream
   * could say so: its consumer had gone
   */
  async settled(): Promise<void> {
    await this.drained;
    const { failure } = this.base.recorder;
    if (failure && !this.reason) throw failure.error;
  }

  /** Somebody has subscribed. */
  protected abstract begin(): void;
  /** The next square, if it is known yet. */
  protected abstract nextSquare(): Square | undefined;
  /** No further square can enter now. */
  protected abstract paused(): void;
  protected abstract closing(): void;
  protected abstract received(message: Exclude<PeerMessage, HiddenMessage>): void;
  /** The peer before will send nothing more. */
  protected abstract sourceEnded(): void;
  /** What tasks of the run have completed. */
  protected completed(completion: Completion): void {
    this.base.recorder.completed(completion.event);
  }
  /** A square is about to enter the window. */
  protected entering(square: Square): void {
    this.enter(square.batch);
  }
  /** A row has given its memory back. */
  protected released(row: RowId): void {
    this.device.closeRow(this.base.id, row);
  }

  /** A page of the cache is kept for rows to come no longer. */
  protected freed?(page: number): void;

  /** Nothing is under way. */
  protected get idle(): boolean {
    return this.credits === this.base.window;
  }

  /** The square leaves the window: whether it was the last one of its batch there. @throws ScheduleError */
  protected leaveWindow(square: IssuedSquare): boolean {
    this.composition.retires(square);
    this.credits++;
    return this.leave(square.batch);
  }

  /** The stream of squares ends well. */
  protected finish(): void {
    if (this.closed) return;
    this.finished = true;
    this.close();
    // All is over by now, and the caller has been told.
    this.reason = this.base.recorder.failure;
    if (this.reason) this.subscriber?.error(this.reason.error);
    else this.subscriber?.complete();
  }

  protected releaseIfUnused(row: RowId, live: Row): void {
    if (!live.forgotten || live.uses > 0) return;
    this.live.delete(row);
    this.released(row);
    live.pages.release();
  }

  protected askPump(): void {
    if (this.pumpAsked || this.closed) return;
    this.pumpAsked = true;
    // One turn later, so that a burst of arrivals or completions is seen as one.
    setImmediate(() => {
      this.pumpAsked = false;
      this.base.recorder.timed(() => {
        this.pump();
      });
    });
  }

  /** Something of the batch is under way: with the first, its rows are in use. */
  protected enter(batch: Batch): void {
    const squares = this.underWay.get(batch) ?? 0;
    this.underWay.set(batch, squares + 1);
    if (squares > 0) return;
    for (const { row } of batch.rows) {
      const live = this.live.get(row);
      if (live) live.uses++;
    }
  }

  /** Something of the batch is no longer under way: whether it was the last. */
  protected leave(batch: Batch): boolean {
    const squares = (this.underWay.get(batch) ?? 1) - 1;
    if (squares > 0) this.underWay.set(batch, squares);
    else this.underWay.delete(batch);
    return squares === 0;
  }

  /**
   * A batch has been through all layers for which the run answers: what its rows begin as a copy of has been copied.
   */
  protected through(batch: Batch): void {
    for (const { row } of batch.rows) this.live.get(row)?.pages.copied();
  }

  /** The batch's last square is issued: what it computes is there for whatever is issued from now on. */
  private wrote(batch: Batch): void {
    for (const { row, firstPosition, tokens } of batch.rows) this.live.get(row)?.pages.wrote(firstPosition + tokens);
  }

  private peerEvents(): ConstructorParameters<typeof PeerConnection>[3] {
    const guarded = (act: () => void): void => {
      if (this.closed) return;
      try {
        this.base.recorder.timed(act);
      } catch (error) {
        this.fail(error);
      }
    };
    return {
      onMessage: (message) => {
        guarded(() => {
          this.received(message);
        });
      },
      onEnd: () => {
        guarded(() => {
          this.sourceEnded();
        });
      },
      onFailure: (error) => {
        this.fail(error);
      },
    };
  }

  private complete(burst: readonly Completion[]): void {
    for (const completion of burst) {
      if (completion.event.task.run !== this.base.id) continue;
      this.outstanding--;
      this.failure ??= completion.event.error;
      this.completed(completion);
    }
    if (this.closed) this.finishDraining();
    else if (this.base.recorder.failure) this.askPump();
  }

  /** Lets squares into the stages while there are credits. */
  private pump(): void {
    const { subscriber } = this;
    if (this.pumping || this.closed || !subscriber) return;
    this.pumping = true;
    try {
      this.base.recorder.rows(this.live.size);
      while (this.credits > 0 && !subscriber.closed) {
        const square = this.held ?? this.nextSquare();
        if (!square || subscriber.closed) break;
        this.held = this.makeRoom(square) ? undefined : square;
        if (this.held) break;
        this.checker.accept(square);
        this.credits--;
        if (square.layer === this.lastLayer) this.wrote(square.batch);
        this.entering(square);
        const issued = issuedSquare(square);
        this.composition.enters(issued);
        subscriber.next(issued);
      }
      const { failure } = this.base.recorder;
      if (failure) this.fail(failure.error);
    } catch (error) {
      this.fail(error);
    } finally {
      this.pumping = false;
    }
    this.paused();
  }

  /** Takes all pages that the square's rows need to come this far, or none of them. */
  private makeRoom(square: Square): boolean {
    // The batch's first layer has made room for all of them.
    if (square.layer > this.firstLayer) return true;
    const growing: { readonly pages: RowPages; readonly end: number }[] = [];
    let lacking = NO_PAGES;
    for (const { row, firstPosition, tokens } of square.batch.rows) {
      const pages = this.live.get(row)?.pages;
      const end = firstPosition + tokens;
      if (!pages || end <= pages.next) continue;
      growing.push({ pages, end });
      if (end <= pages.reach) continue;
      lacking = plus(lacking, pages.lacks(end));
    }
    if (!this.base.pool.has(lacking)) return false;
    for (const { pages, end } of growing) pages.advance(end);
    return true;
  }

  private finishDraining(): void {
    if (this.outstanding > 0 || this.isDrained) return;
    this.isDrained = true;
    this.completions.unsubscribe();
    for (const [row, { pages }] of this.live) {
      this.device.closeRow(this.base.id, row);
      pages.release();
    }
    this.live.clear();
    this.pages.close();
    this.device.closeRun(this.base.id);
    this.base.recorder.end();
    this.resolveDrained();
  }
}
