import { Subject } from 'rxjs';
import { PeerError, ScheduleError } from '../../errors/engineErrors.js';
import { layerBounds, type Batch, type RowId, type RowRange, type Square } from '../grid/Square.js';
import type { HeadOutput } from '../grid/Task.js';
import type { BeginMessage, RunMessage } from '../peers/PeerMessage.js';
import { Call } from './Call.js';
import type { HeldRows } from './HeldRows.js';
import type { IssuedSquare } from './IssuedSquare.js';
import type { LiveRow } from './LiveRow.js';
import { RingLead, type RingLeadSetup } from './RingLead.js';
import { RowAdmission, type RowAdmissionSetup } from './RowAdmission.js';
import type { RowFeed } from './RowFeed.js';
import type { RunLifecycle } from './RunLifecycle.js';
import { Continuation, type RunRow } from './RunRow.js';
import type { RunParts, SquareRunSetup, SquareSource } from './SquareRun.js';
import type { SquareWindow } from './SquareWindow.js';
import { Sweeps } from './Sweeps.js';

export interface RunSetup<Result> extends SquareRunSetup, RowAdmissionSetup, RingLeadSetup {
  /** The rows of a run that is one call: its results are the run's, which ends with it. Default: see `join`. */
  readonly feed?: RowFeed<Result> | undefined;
  /** Called when the engines of the other layers have joined, where there are some: rows may come in then. */
  readonly joined?: (() => void) | undefined;
  /**
   * Rows that end together are seen to for so long, and the others when the event loop has had its turn: a result may
   * take milliseconds to be made. Default: all at once, as on a device whose time is not this machine's.
   */
  readonly turnMilliseconds?: number | undefined;
}

/** A batch of which the head's findings are there, and how many of its rows have heard them. */
interface HeardBatch {
  readonly rows: readonly RowRange[];
  /** Nothing of it is under way any more. */
  readonly left: boolean;
  readonly head: HeadOutput | undefined;
  heard: number;
  /** Its rows with tokens that their formats force. */
  withForced: number;
}

/**
 * The squares that a schedule plans for the rows that are admitted, of all calls that have joined: `RowAdmission` lets
 * them in, `Sweeps` asks the schedule, and where there are engines of other layers `RingLead` tells them.
 */
export class ScheduledSquares<Result> implements SquareSource<Result, LiveRow<Result>> {
  readonly returned$ = new Subject<Result>();

  private readonly life: RunLifecycle;
  private readonly rows: HeldRows<LiveRow<Result>>;
  private readonly window: SquareWindow;
  private readonly lastLayer: number;
  private readonly calls = new Set<Call<Result>>();
  private readonly admission: RowAdmission<Result>;
  private readonly sweeps: Sweeps<Result>;
  private readonly ring: RingLead | undefined;
  /** Rows share pages. Where engines of other layers have to, too, they say whether they can. */
  private sharesPages: boolean;
  private started = false;
  /** Batches in the order in which they came, as far as their rows have not heard of them. */
  private readonly unheard: HeardBatch[] = [];
  /** The rest of them is heard of in a turn to come. */
  private hearsLater = false;
  /** When the first row ended in this turn of the event loop. */
  private endedAt: number | undefined;
  /** The results of the square that is looked at, in a run that is one call. */
  private results: Result[] = [];

  constructor(
    private readonly setup: RunSetup<Result>,
    { life, rows, window, connection }: RunParts<LiveRow<Result>>,
  ) {
    this.life = life;
    this.rows = rows;
    this.window = window;
    this.lastLayer = layerBounds(setup.grid).last;
    const ring = connection && new RingLead(setup, connection, setup.pool.pageTokens);
    this.ring = ring;
    this.sharesPages = !ring;
    this.admission = new RowAdmission(setup, {
      life,
      rows,
      window,
      calls: this.calls,
      opened: (row, sequence, pages) => ring?.opened(row, sequence, pages),
    });
    this.sweeps = new Sweeps(
      {
        schedule: setup.schedule,
        rows,
        window,
        admit: (grid, state, ended) => this.admission.admit(grid, state, ended),
        forget: (live) => {
          this.forget(live);
        },
        announced: (squares, grid) => ring?.announced(setup.schedule.name, squares, grid) ?? squares,
      },
      setup.grid,
    );
    if (setup.feed)
      this.join(
        new Call(setup.feed, setup.recorder, {
          result: (result) => void this.results.push(result),
          over: () => undefined,
          left: () => undefined,
          failed: (error) => {
            life.fail(error);
          },
        }),
      );
  }

  /** Rows of a call come in from now on, among those of others. */
  join(call: Call<Result>): void {
    const { feed } = call;
    this.calls.add(call);
    this.admission.waiting.join(call);
    feed.onRow = (row) => {
      // Whether they share is known when the others have joined.
      if (row && !this.life.closed && this.together) this.arrived(call, row);
      this.window.ask();
    };
    if (this.started) feed.start();
  }

  /** A call wants no more results: its rows end as they are, and nobody else's. */
  leave(call: Call<Result>): void {
    if (!this.calls.delete(call)) return;
    this.admission.waiting.leave(call);
    for (const live of [...this.rows.all()]) {
      // What a prefix computes others may wait for.
      if (live.call !== call || !live.row || live.ended) continue;
      this.end(live);
      this.rows.releaseIfUnused(live.id);
    }
    if (call.held === 0) call.events.left();
    this.window.ask();
  }

  /** Calls that have joined and are not over. */
  get callCount(): number {
    return this.calls.size;
  }

  /** The calls that have rows in a batch, and those rows. */
  shares({ rows }: Batch): Map<Call<Result>, RowRange[]> {
    const shares = new Map<Call<Result>, RowRange[]>();
    for (const range of rows) {
      const call = this.rows.get(range.row)?.call;
      if (!call) continue;
      const ranges = shares.get(call);
      if (ranges) ranges.push(range);
      else shares.set(call, [range]);
    }
    return shares;
  }

  /** All layers are there: in this engine, or in those that have joined. */
  private get together(): boolean {
    return this.ring?.begun ?? true;
  }

  private arrived(call: Call<Result>, row: RunRow<Result>): void {
    this.admission.waiting.arrived(call, row, this.sharesPages, this.setup.device);
  }

  retired({ batch, layer, events }: IssuedSquare, last: boolean): Result[] {
    if (this.ring?.headAtPeer !== true && layer === this.lastLayer) this.rows.through(batch);
    return this.advance(batch, last, events.head);
  }

  begin(): void {
    this.started = true;
    this.sweeps.start(this.setup.grid);
    // Rows are asked for at once: a source that does not wait would give them to nobody until the others have joined.
    for (const { feed } of this.calls) feed.start();
    this.ring?.begin();
  }

  received(message: RunMessage): void {
    const { ring } = this;
    if (this.together === (message.kind === 'begin'))
      throw new PeerError(`message: found "${message.kind}" come back, expected "begin" first, and once`);
    switch (message.kind) {
      case 'begin':
        if (ring) this.ringJoined(ring, message);
        return;
      case 'head': {
        if (!ring) return;
        const { batch, output } = ring.returned(message, (row) => this.rows.get(row)?.row?.sequence);
        this.rows.through(batch);
        for (const result of this.advance(batch, this.rows.leave(batch), output)) this.returned$.next(result);
        return;
      }
      default:
        throw new PeerError(
          `message: found "${message.kind}" on the way back to the first layers, expected "begin" or "head"`,
        );
    }
  }

  private ringJoined(ring: RingLead, message: BeginMessage): void {
    const grid = ring.joined(message);
    const { pages, cache, sharesPages } = message;
    void this.life.drained.then(this.setup.pool.limitTo(pages, cache.mostFetchedPages));
    this.sharesPages = sharesPages;
    this.sweeps.start(grid);
    for (const call of this.calls) for (const row of call.feed.rows) this.arrived(call, row);
    this.setup.joined?.();
    this.window.ask();
  }

  sourceEnded(): void {
    throw new PeerError('the engine of the last layers has ended before the run did');
  }

  closing(): void {
    this.unheard.length = 0;
    this.admission.close();
  }

  paused(): void {
    const { life, window, rows, ring } = this;
    if (!this.together) return;
    if (window.idle && (ring?.idle ?? true) && !this.hearsLater && rows.size > 0 && !life.closed) {
      const some = [...rows.ids()].slice(0, 3).join(', ');
      if (window.lacksMemory)
        life.fail(
          new ScheduleError(
            'capacity',
            `there is no memory for the next square, and none will come free: the schedule's rows (${some}, …) grow or end otherwise than it promised`,
          ),
        );
      else
        life.fail(
          new ScheduleError('complete', `the schedule has no square left, but rows (${some}, …) are not complete`),
        );
    }
    for (const call of [...this.calls]) this.look(call);
    if (this.calls.size === 0 && rows.size === 0 && window.idle) life.finish();
  }

  /** Checks whether a call is over. */
  private look(call: Call<Result>): void {
    const { feed, recorder, held } = call;
    if (recorder !== this.setup.recorder) recorder.rows(held);
    if (!feed.ended || held > 0 || this.life.closed) return;
    this.calls.delete(call);
    this.admission.waiting.leave(call);
    // The rows before a failure of their source have been seen to.
    if (feed.failure) call.events.failed(feed.failure.error);
    else call.events.over();
    call.events.left();
  }

  entering(square: Square): void {
    // Once more, for the layers that are elsewhere.
    if (this.ring?.sends(square)) this.rows.enter(square.batch);
  }

  released(row: RowId, { call }: LiveRow<Result>): void {
    call.held--;
    if (call.held === 0 && !this.calls.has(call)) call.events.left();
    this.ring?.released(row, !this.life.closed);
  }

  freed(page: number): void {
    if (!this.life.closed) this.ring?.freed(page);
  }

  next(): Square | undefined {
    // A sweep is planned when it is known of the last one who has ended.
    return this.together && !this.hearsLater ? this.sweeps.next() : undefined;
  }

  /** Gives a batch's rows what the head has found for them, and their memory back where they are through. */
  private advance({ rows }: Batch, left: boolean, head: HeadOutput | undefined): Result[] {
    this.results = [];
    if (left || head) this.unheard.push({ rows, left, head, heard: 0, withForced: 0 });
    if (!this.hearsLater) this.hear();
    return this.results;
  }

  /** Batches are heard of one after the other, and the rows of each in their order. */
  private hear(): void {
    for (let batch = this.unheard[0]; batch; batch = this.unheard[0]) {
      while (batch.heard < batch.rows.length) {
        const range = batch.rows[batch.heard++];
        if (range && this.rowHears(range, batch) && this.isLongTurn()) {
          this.hearLater();
          return;
        }
      }
      this.unheard.shift();
      if (batch.head) this.sweeps.sampled(batch.head.sampled.size, batch.withForced);
    }
    this.window.ask();
  }

  private hearLater(): void {
    this.hearsLater = true;
    setImmediate(() => {
      this.hearsLater = false;
      this.results = [];
      this.life.guarded(() => {
        this.hear();
        for (const result of this.results) this.returned$.next(result);
      });
    });
  }

  /** Rows have ended in this turn for as long as they may. */
  private isLongTurn(): boolean {
    const { turnMilliseconds = Infinity } = this.setup;
    if (turnMilliseconds === Infinity) return false;
    const now = performance.now();
    if (this.endedAt === undefined)
      setImmediate(() => {
        this.endedAt = undefined;
      });
    this.endedAt ??= now;
    return now - this.endedAt >= turnMilliseconds;
  }

  /** @returns whether the row has ended */
  private rowHears({ row, firstPosition, tokens }: RowRange, batch: HeardBatch): boolean {
    const { left, head } = batch;
    const live = this.rows.get(row);
    if (!live) return false;
    if (left && !live.row && this.window.path.missing(row) === 0) this.endOfPrefix(live);
    const goesOn = !live.ended;
    if (head && live.row && goesOn) {
      const forced = head.sampled.get(row)?.forced ?? [];
      if (forced.length > 0) {
        batch.withForced++;
        const stretch = { behind: firstPosition + tokens - 1, end: firstPosition + tokens + 1 + forced.length };
        this.sweeps.knows(live, stretch);
        this.setup.recorder.known(row, stretch);
      }
      this.accept(live, live.row, head);
    }
    this.rows.releaseIfUnused(row);
    return goesOn && live.ended;
  }

  private accept(live: LiveRow<Result>, row: RunRow<Result>, head: HeadOutput): void {
    const { call } = live;
    let end: Result | Continuation<Result> | undefined;
    try {
      end = row.accept(head, live.id, live.pages.sharedTokens);
    } catch (error) {
      call.events.failed(error);
      return;
    }
    // Whoever is told of the row's tokens may have left.
    if (end === undefined || live.ended) return;
    if (end instanceof Continuation) this.goOn(call, end);
    else call.events.result(end);
    if (!live.ended) this.end(live);
  }

  /** Before the row itself gives back what it has computed: its pages are kept for those that go on after it. */
  private goOn(call: Call<Result>, { rows, later }: Continuation<Result>): void {
    if (later) call.feed.addLater(later);
    if (this.life.closed) return;
    call.feed.add(rows);
    for (const row of rows) this.arrived(call, row);
  }

  /** The row's result is out, or nobody wants it. */
  private end(live: LiveRow<Result>): void {
    live.ended = true;
    if (live.pages.paused) this.admission.forget(live);
    else live.call.running--;
    this.sweeps.end(live.id);
    if (this.window.path.missing(live.id) === 0) this.forget(live);
  }

  private endOfPrefix(live: LiveRow<Result>): void {
    if (!live.forgotten) live.call.running--;
    this.forget(live);
  }

  /** No square that is still to come holds the row. */
  private forget(live: LiveRow<Result>): void {
    if (live.forgotten) return;
    live.forgotten = true;
    this.setup.recorder.left(live.id, live.pages.next);
    this.window.path.release(live.id);
  }
}
