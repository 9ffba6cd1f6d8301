import { Subject } from 'rxjs';
import { found } from '../../arguments/found.js';
import { PeerError, ScheduleError } from '../../errors/engineErrors.js';
import type { AdmittedRow, Schedule } from '../schedules/Schedule.js';
import { batchKey, layerBounds, type Batch, type Grid, type RowId, type Square } from '../grid/Square.js';
import type { BeginMessage, RunMessage } from '../peers/PeerMessage.js';
import { announcementOf, squaresOf } from '../peers/sweeps.js';
import type { KnownStretch } from '../schedules/PathChecker.js';
import { nextSweep, withPrefixes, type RowBegin } from '../schedules/nextSweep.js';
import type { IssuedSquare } from './IssuedSquare.js';
import type { Admission } from '../memory/PagePool.js';
import { PageNumbers } from '../memory/PageNumbers.js';
import type { RowPages } from '../memory/RowPages.js';
import type { DeviceRow } from '../grid/Device.js';
import type { PeerConnection } from '../peers/PeerConnection.js';
import { BlockStart } from './BlockStart.js';
import { checkHead } from './checkHead.js';
import { GREEDY } from './greedy.js';
import type { RowFeed } from './RowFeed.js';
import { Continuation, type RunRow } from './RunRow.js';
import type { HeldRow, HeldRows } from './HeldRows.js';
import type { RunLifecycle } from './RunLifecycle.js';
import type { RunParts, SquareRunSetup, SquareSource } from './SquareRun.js';
import type { SquareWindow } from './SquareWindow.js';
import type { HeadOutput } from '../grid/Task.js';
import { lengthsOf, WaitingRows, type WaitingRow } from './WaitingRows.js';

export interface RunSetup<Result> extends SquareRunSetup {
  readonly schedule: Schedule;
  readonly feed: RowFeed<Result>;
  /** Most rows that may be under way together, at any time. Default: as many as the grid has places. */
  readonly mostRows?: (() => number) | undefined;
  /** Called when the engines of the other layers have joined, where there are some: rows may come in then. */
  readonly joined?: (() => void) | undefined;
  /** What the run tells its peers about itself; given where there are some. */
  readonly begin?: BeginMessage | undefined;
  /**
   * Beside peers: parts of the block that sweep in turn. Default: as many as there are slots; where an engine streams
   * weights, once for each part, as many as there are engines.
   */
  readonly microBatches?: number | undefined;
}

export interface LiveRow<Result> extends HeldRow {
  /** Undefined for a prefix that is computed for rows to come. */
  readonly row: RunRow<Result> | undefined;
  /** Of a prefix, and of a row that begins behind what others have computed. */
  readonly begin: RowBegin | undefined;
  /** Its result is out; squares that were planned before may still hold it. */
  ended: boolean;
  /** Tokens that are known beyond the next one, the last time that there were some. */
  known: KnownStretch | undefined;
}

/**
 * The share of rows with forced tokens from which on sweeps wait for the heads of those before: it costs a moment in
 * which nothing is computed, and saves every other sweep.
 */
const WORTH_WAITING = 0.25;

/**
 * The squares that a schedule plans for the rows that are admitted.
 *
 * Where only the first of the model's layers are here, the others' engines are told what comes, and what their head
 * finds comes back from them: until then a batch stays in use, but holds no credit.
 */
export class ScheduledSquares<Result> implements SquareSource<Result> {
  readonly returned$ = new Subject<Result>();

  private readonly life: RunLifecycle;
  private readonly rows: HeldRows<LiveRow<Result>>;
  private readonly window: SquareWindow;
  private readonly blockStart: BlockStart;
  private readonly connection: PeerConnection | undefined;
  /** What is behind these layers is computed elsewhere: heads come back from there. */
  private readonly headElsewhere: boolean;
  /** With as many slots as all engines have. */
  private grid: Grid;
  private readonly firstLayer: number;
  private readonly lastLayer: number;
  private scheduleState: unknown;
  private squares: Iterator<Square> | undefined;
  private ended = new Set<RowId>();
  private nextRow = 0;
  private readonly waiting: WaitingRows<Result>;
  /** How the engines of the other layers name pages that rows share. */
  private readonly numbers: PageNumbers;
  private shares: boolean;
  /** The engines of the other layers have said what they add to the run. */
  private begun = false;
  /** Batches whose head is elsewhere and has not come back, by pass and slot. */
  private readonly returning = new Map<string, Batch>();
  /** Rows of which tokens are known that have not been issued. */
  private readonly forced = new Set<RowId>();
  /** Of the rows that were sampled lately, those with tokens that their formats force. */
  private forcing = 0;

  constructor(
    private readonly setup: RunSetup<Result>,
    { life, rows, window, connection }: RunParts<LiveRow<Result>>,
  ) {
    this.life = life;
    this.rows = rows;
    this.window = window;
    this.connection = connection;
    this.grid = setup.grid;
    const { first, last, samples } = layerBounds(setup.grid);
    this.firstLayer = first;
    this.lastLayer = last;
    this.headElsewhere = connection !== undefined && !samples;
    this.numbers = new PageNumbers(setup.pool.pageTokens);
    // Where others have to share, too, they say whether they can.
    this.shares = !connection;
    this.waiting = new WaitingRows(setup.feed, rows.pages);
    this.blockStart = new BlockStart(() => {
      window.ask();
    });
    setup.feed.onRow = (row) => {
      // Whether they share is known when the others have joined.
      if (row && !life.closed && this.together) this.arrived(row);
      window.ask();
    };
  }

  /** All layers are there: in this engine, or in those that have joined. */
  private get together(): boolean {
    return this.begun || !this.connection;
  }

  private arrived(row: RunRow<Result>): void {
    this.waiting.arrived(row, this.shares, this.setup.device);
  }

  retired({ batch, layer, events }: IssuedSquare, last: boolean): Result[] {
    if (!this.headElsewhere && layer === this.lastLayer) this.rows.through(batch);
    return this.advance(batch, last, events.head);
  }

  begin(): void {
    this.scheduleState = this.setup.schedule.start(this.grid);
    // Rows are asked for at once: a source that does not wait would give them to nobody until the others have joined.
    this.setup.feed.start();
    if (!this.connection) return;
    this.connection.start();
    if (this.setup.begin) this.connection.post(this.setup.begin);
  }

  received(message: RunMessage): void {
    if (this.begun === (message.kind === 'begin'))
      throw new PeerError(`message: found "${message.kind}" come back, expected "begin" first, and once`);
    switch (message.kind) {
      case 'begin': {
        this.begun = true;
        const { nextLayer, model, pages, cache, sharesPages, share } = message;
        if (nextLayer !== model.layers)
          throw new PeerError(
            `layers: found engines of the first ${nextLayer}, expected engines of all ${model.layers}`,
          );
        const shares = this.setup.grid.share?.of;
        if (share?.of !== shares || share?.next !== shares)
          throw new PeerError(
            `tensorParallel: found engines of the first ${share?.next ?? 0} shares, expected those of all ${shares ?? 0}`,
          );
        void this.life.drained.then(this.setup.pool.limitTo(pages, cache.mostFetchedPages));
        this.shares = sharesPages;
        this.grid = this.gridOf(message);
        this.scheduleState = this.setup.schedule.start(this.grid);
        for (const row of this.setup.feed.rows) this.arrived(row);
        this.setup.joined?.();
        this.window.ask();
        return;
      }
      case 'head':
        this.headReturned(message.pass, message.slot, message.output);
        return;
      default:
        throw new PeerError(
          `message: found "${message.kind}" on the way back to the first layers, expected "begin" or "head"`,
        );
    }
  }

  /** The slots that all engines have, and how they are divided. @throws PeerError */
  private gridOf({ grid: { slots }, engines, streams }: BeginMessage): Grid {
    const { grid } = this.setup;
    // Where all engines have every layer there is nobody to take turns with.
    const { microBatches = grid.share ? 1 : streams ? engines : slots } = this.setup;
    if (!(slots >= 1 && slots <= grid.slots))
      throw new PeerError(`begin.grid.slots: found ${slots}, expected 1 to the ${grid.slots} that were announced`);
    return { ...grid, slots, microBatches: Math.max(1, Math.min(slots, microBatches)) };
  }

  sourceEnded(): void {
    throw new PeerError('the engine of the last layers has ended before the run did');
  }

  closing(): void {
    this.blockStart.close();
    this.waiting.close();
  }

  paused(): void {
    const { feed } = this.setup;
    const { life, window } = this;
    if (!this.together) return;
    if (window.idle && this.returning.size === 0 && this.rows.size > 0 && !life.closed) {
      const rows = [...this.rows.ids()].slice(0, 3).join(', ');
      if (window.lacksMemory)
        life.fail(
          new ScheduleError(
            'capacity',
            `there is no memory for the next square, and none will come free: the schedule's rows (${rows}, …) grow or end otherwise than it promised`,
          ),
        );
      else
        life.fail(
          new ScheduleError('complete', `the schedule has no square left, but rows (${rows}, …) are not complete`),
        );
    }
    if (!feed.ended || this.rows.size > 0 || !window.idle) return;
    // The rows before a failure of their source have been seen to.
    if (feed.failure) life.fail(feed.failure.error);
    else life.finish();
  }

  entering({ batch, layer }: Square): void {
    if (!this.connection || !this.headElsewhere) return;
    if (layer === this.firstLayer) this.connection.tokens.expect(batch);
    // A schedule may leave a batch whose rows have ended where it is: only what leaves the layers here comes back.
    if (layer !== this.lastLayer) return;
    // Once more, for the layers that are elsewhere.
    this.rows.enter(batch);
    this.returning.set(batchKey(batch), batch);
  }

  released(row: RowId): void {
    this.connection?.tokens.forget(row);
    if (!this.life.closed) this.connection?.post({ kind: 'close', row });
  }

  freed(page: number): void {
    if (this.connection && !this.life.closed) this.connection.post({ kind: 'free', page: this.numbers.free(page) });
  }

  next(): Square | undefined {
    if (!this.together) return undefined;
    for (;;) {
      const square = this.squares?.next();
      if (square && square.done !== true) return square.value;
      this.squares = undefined;
      // A sweep that is planned before the last one's heads have been heard advances rows by a token, and samples
      // nothing of those of which more are known by then.
      if (this.forcing >= WORTH_WAITING && !this.window.idle) return undefined;
      this.forgetEnded();
      this.rows.pages.sweepPlanned(1 / (this.grid.microBatches ?? 1));
      const admitted = this.admit();
      if (admitted.length === 0 && this.rows.size === 0) return undefined;
      const { state, squares } = nextSweep(this.setup.schedule, this.scheduleState, {
        admitted,
        ended: this.ended,
        known: this.knownAhead(),
      });
      this.ended = new Set();
      this.scheduleState = state;
      this.squares = this.announced(withPrefixes(squares, (row) => this.rows.get(row)?.begin))[Symbol.iterator]();
      const first = this.squares.next();
      if (first.done !== true) return first.value;
      return undefined;
    }
  }

  /** Rows that may be advanced by more than a token, and how far. */
  private knownAhead(): ReadonlyMap<RowId, number> {
    const ahead = new Map<RowId, number>();
    let admission: Admission | undefined;
    for (const row of this.forced) {
      const live = this.rows.get(row);
      if (!live?.known || live.ended || live.known.end <= live.pages.next + 1) {
        this.forced.delete(row);
        continue;
      }
      admission ??= this.rows.pages.admission(0);
      if (!admission.hasten(live.pages, live.known.end)) continue;
      this.window.path.knows(row, live.known);
      ahead.set(row, live.known.end - (live.begin?.firstPosition ?? 0));
    }
    return ahead;
  }

  /** Tells the peers what will come of a sweep. */
  private announced(squares: Iterable<Square>): Iterable<Square> {
    if (!this.connection) return squares;
    const sweep = [...squares];
    if (sweep.length === 0) return sweep;
    const announcement = announcementOf(sweep, this.grid);
    this.connection.post(announcement);
    if (!this.grid.share) return sweep;
    // Engines that share each layer compute the same squares in the same order: that of whoever hears of them.
    if (announcement.batches.length * this.grid.layers !== sweep.length)
      throw new ScheduleError(
        'complete',
        `${this.setup.schedule.name}: a sweep has ${sweep.length} squares, ${announcement.batches.length} of them of the last layer; engines that share each layer take batches through all ${this.grid.layers} layers in a sweep`,
      );
    return squaresOf(announcement, this.grid);
  }

  /** What the head found for a batch came back from the engine of the last layers. */
  private headReturned(pass: number, slot: number, output: HeadOutput): void {
    const key = batchKey({ pass, slot });
    const batch = this.returning.get(key);
    if (!batch)
      throw new PeerError(
        `head: found one for pass ${pass}, slot ${slot}, expected one of a batch that was sent and has not come back`,
      );
    checkHead(batch, output, (row) => this.rows.get(row)?.row?.sequence, this.setup.begin?.model);
    this.returning.delete(key);
    this.connection?.tokens.returned(batch, output);
    this.rows.through(batch);
    for (const result of this.advance(batch, this.rows.leave(batch), output)) this.returned$.next(result);
  }

  /** Gives a batch's rows what the head has found for them, and their memory back where they are through. */
  private advance({ rows }: Batch, left: boolean, head: HeadOutput | undefined): Result[] {
    const results: Result[] = [];
    let withForced = 0;
    for (const { row, firstPosition, tokens } of left || head ? rows : []) {
      const live = this.rows.get(row);
      if (!live) continue;
      if (left && !live.row && this.window.path.missing(row) === 0) this.forget(row, live);
      if (head && live.row && !live.ended) {
        const forced = head.sampled.get(row)?.forced ?? [];
        if (forced.length > 0) {
          withForced++;
          this.knows(row, live, {
            behind: firstPosition + tokens - 1,
            end: firstPosition + tokens + 1 + forced.length,
          });
        }
        const end = live.row.accept(head, row, live.begin?.firstPosition ?? 0);
        if (end !== undefined) {
          if (end instanceof Continuation) this.goOn(end);
          else results.push(end);
          live.ended = true;
          this.ended.add(row);
          if (this.window.path.missing(row) === 0) this.forget(row, live);
        }
      }
      this.rows.releaseIfUnused(row);
    }
    if (head && head.sampled.size > 0) this.forcing = (this.forcing + withForced / head.sampled.size) / 2;
    this.window.ask();
    return results;
  }

  private knows(row: RowId, live: LiveRow<Result>, stretch: KnownStretch): void {
    live.known = stretch;
    this.forced.add(row);
    this.setup.recorder.known(row, stretch);
  }

  /** Before the row itself gives back what it has computed: its pages are kept for those that go on behind it. */
  private goOn({ rows, later }: Continuation<Result>): void {
    if (later) this.setup.feed.addLater(later);
    if (this.life.closed) return;
    this.setup.feed.add(rows);
    for (const row of rows) this.arrived(row);
  }

  /**
   * No square of a sweep is left, and the next sweep is planned without the rows that ended: what they hold is free
   * once nothing under way uses it.
   */
  private forgetEnded(): void {
    for (const row of this.ended) {
      const live = this.rows.get(row);
      if (!live) continue;
      this.forget(row, live);
      this.rows.releaseIfUnused(row);
    }
  }

  /** No square that is still to come holds the row. */
  private forget(row: RowId, live: LiveRow<Result>): void {
    if (live.forgotten) return;
    live.forgotten = true;
    this.window.path.release(row);
  }

  /** Takes rows that wait, in turn, as there are places and memory. */
  private admit(): AdmittedRow[] {
    const { feed, schedule } = this.setup;
    const free = this.freePlaces();
    if (free <= 0 || feed.rows.length === 0) return [];
    // The last rows of a block are through for the schedule, but still hold their pages: a block that began now would
    // begin small.
    if (schedule.steady === 'blocks') {
      const waiting = feed.rows.length;
      const complete = waiting >= Math.min(free, feed.remaining) || feed.full;
      if (this.rows.size > 0 || this.blockStart.waits(waiting, complete)) return [];
    }
    const admission = this.rows.pages.admission(Math.min(free, feed.remaining));
    if (schedule.steady !== 'staggered') {
      // Where rows may have to come in together, what they begin with comes in before them: the others of a block would
      // not wait for them.
      const prefixes = this.admitInTurn(free, free, (waiting) => this.openPrefix(waiting, admission) ?? 'later');
      if (prefixes.length > 0) return prefixes;
    }
    return this.admitInTurn(
      free,
      Infinity,
      (waiting) => this.openPrefix(waiting, admission) ?? this.openRow(waiting, admission),
    );
  }

  /**
   * @param most rows that are looked at
   * @param open undefined when there is no room for the row, and no other may pass it
   */
  private admitInTurn(
    places: number,
    most: number,
    open: (waiting: WaitingRow<Result>) => AdmittedRow | 'later' | undefined,
  ): AdmittedRow[] {
    const admitted: AdmittedRow[] = [];
    let seen = 0;
    for (const waiting of this.waiting.inTurn()) {
      // Whoever is called in between may end the run: rows that come in after that are never released.
      if (admitted.length >= places || seen++ >= most || this.life.closed) break;
      const row = open(waiting);
      if (!row) break;
      if (row !== 'later') admitted.push(row);
    }
    return admitted;
  }

  /** Places for rows that come in now. @throws ScheduleError */
  private freePlaces(): number {
    const { feed, schedule, mostRows } = this.setup;
    const places: unknown = schedule.free(this.scheduleState, this.ended);
    if (typeof places !== 'number' || !Number.isSafeInteger(places))
      throw new ScheduleError('complete', `${schedule.name}: free returned ${found(places)}, expected a whole number`);
    // What it says follows from what it has seen, and with no row under way it will see nothing new.
    if (places <= 0 && feed.rows.length > 0 && this.rows.size === 0)
      throw new ScheduleError(
        'complete',
        `${schedule.name}: free returned ${places} while rows wait and none is under way: they would never begin`,
      );
    const taken = this.grid.slots * this.grid.rowsPerSlot - places;
    return mostRows ? Math.min(places, mostRows() - taken) : places;
  }

  /**
   * Begins to compute the beginning of a prompt, for that row and others, where they should wait for that: to the
   * schedule a row whose tokens are all given and that samples none.
   */
  private openPrefix({ row, path }: WaitingRow<Result>, admission: Admission): AdmittedRow | 'later' | undefined {
    const pages = path && admission.admitPrefix(this.nextRow, lengthsOf(row), path);
    if (!pages) return undefined;
    if (pages === 'coming') return 'later';
    const { tokens, promptTokens = tokens.length } = row.sequence;
    const given = tokens.slice(0, pages.lengths.positions);
    return this.open(undefined, pages, { ...GREEDY, tokens: given, promptTokens, capacityTokens: given.length });
  }

  private openRow(waiting: WaitingRow<Result>, admission: Admission): AdmittedRow | undefined {
    const { row, path } = waiting;
    const pages = admission.admit(this.nextRow, lengthsOf(row), path);
    if (!pages) return undefined;
    this.waiting.take(waiting);
    return this.open(row, pages, row.sequence);
  }

  private open(waiting: RunRow<Result> | undefined, pages: RowPages, sequence: DeviceRow): AdmittedRow {
    const { device, id, recorder } = this.setup;
    const row = this.nextRow++;
    const { shared, sharedTokens } = pages;
    const begin =
      waiting && sharedTokens === 0 ? undefined : { firstPosition: sharedTokens, samples: waiting !== undefined };
    this.rows.add(row, { row: waiting, begin, pages, uses: 0, ended: false, known: undefined, forgotten: false });
    const newTokens = waiting?.newTokens ?? 0;
    // No token follows a prefix that it would have to leave out.
    const promptTokens = sequence.tokens.length + (waiting ? 0 : 1);
    const judged = { row, promptTokens, newTokens, shared, prefix: !waiting };
    this.window.path.admit(judged);
    device.openRow(id, row, sequence, pages);
    if (this.connection) {
      const sharing = this.numbers.sharedBy(pages);
      this.connection.post({
        kind: 'open',
        row,
        sequence,
        newTokens,
        ...(!waiting && { prefix: true }),
        ...(sharing && { sharing }),
      });
    }
    recorder.admitted(judged, sequence.tokens.length - sharedTokens, waiting?.countedTokens);
    return { row, promptTokens: promptTokens - sharedTokens, newTokens };
  }
}
