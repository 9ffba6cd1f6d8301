import { Subject } from 'rxjs';
import { PeerError } from '../../errors/engineErrors.js';
import type { FollowedPrefix } from '../memory/FollowedPages.js';
import { total } from '../grid/pageCounts.js';
import { layerBounds, type RowId, type Square } from '../grid/Square.js';
import type { PeerConnection, Peers } from '../peers/PeerConnection.js';
import type { BeginMessage, OpenMessage, RunMessage, SweepMessage } from '../peers/PeerMessage.js';
import { squaresOf } from '../peers/sweeps.js';
import type { Completion } from '../grid/Device.js';
import type { IssuedSquare } from './IssuedSquare.js';
import type { HeldRow, HeldRows } from './HeldRows.js';
import type { RunLifecycle } from './RunLifecycle.js';
import type { RunParts, SquareRunSetup, SquareSource } from './SquareRun.js';
import type { SquareWindow } from './SquareWindow.js';
import type { HeadOutput } from '../grid/Task.js';

export interface FollowingRunSetup extends SquareRunSetup {
  readonly peers: Peers;
  /**
   * Resolves when no run is under way that has joined a ring before this one: tasks of an engine's queues run in order,
   * and those of two runs, in an order of their own on each engine, could wait for each other. Called once, when the
   * run is to join. Default: at once.
   */
  readonly turn?: () => Promise<unknown>;
  /** Adds this engine's part to what goes round the ring, once it has checked that it fits. @throws PeerError */
  readonly join: (begin: BeginMessage) => BeginMessage;
}

export interface FollowedRow extends HeldRow {
  /** The prefix it shares with others, where it does. */
  readonly prefix: FollowedPrefix | undefined;
}

/** Sweeps that may have been announced before they are taken up, and rows in them; more than any window. */
const MOST_SWEEPS = 65_536;
const MOST_SWEEP_ROWS = 2 ** 20;
const NOTHING: HeadOutput = { sampled: new Map(), scored: new Map() };

/** The squares of the batches that the engine before announces. */
export class AnnouncedSquares implements SquareSource<never, FollowedRow> {
  readonly returned$ = new Subject<never>();

  private readonly life: RunLifecycle;
  private readonly rows: HeldRows<FollowedRow>;
  private readonly window: SquareWindow;
  private readonly connection: PeerConnection | undefined;
  private readonly lastLayer: number;

  /** Announced messages, in order, as far as they have not been taken up. */
  private readonly inbox: (OpenMessage | SweepMessage)[] = [];
  private mostAnnounced = 0;
  /** Tokens of these rows, and rows of these sweeps: what they take. */
  private announcedSize = 0;
  private mostAnnouncedSize = 0;
  private squares: Iterator<Square> | undefined;
  /** After it comes the first engine, which announces. */
  private readonly isLast: boolean;
  private begun = false;
  /** True where rows may share pages: all engines up to here can. */
  private shares = false;
  private ended = false;
  /** Rows that were announced and not closed, whether or not that has been taken up. */
  private openRows = 0;

  constructor(
    private readonly setup: FollowingRunSetup,
    { life, rows, window, connection }: RunParts<FollowedRow>,
  ) {
    this.life = life;
    this.rows = rows;
    this.window = window;
    this.connection = connection;
    const { last, samples } = layerBounds(setup.grid);
    const { share } = setup.grid;
    this.lastLayer = last;
    this.isLast = share ? share.index === share.of - 1 : samples;
  }

  retired({ batch, layer }: IssuedSquare): never[] {
    if (layer === this.lastLayer) this.rows.through(batch);
    for (const { row } of batch.rows) this.rows.releaseIfUnused(row);
    this.window.ask();
    return [];
  }

  begin(): void {
    this.connection?.start();
  }

  received(message: RunMessage): void {
    if (this.begun === (message.kind === 'begin'))
      throw new PeerError(`message: found "${message.kind}", expected "begin" first, and once`);
    switch (message.kind) {
      case 'begin':
        this.begun = true;
        if (!this.setup.turn) this.connection?.post(this.join(message));
        else
          void this.setup.turn().then(() => {
            this.life.guarded(() => this.connection?.post(this.join(message)));
          });
        return;
      case 'head':
        throw new PeerError(
          'message: found "head" on the way to later layers, expected it on the way back to the first',
        );
      case 'close':
        if (!this.isLast) this.connection?.post(message);
        // At once: all batches of the row have been through every layer, and the next square may wait for its memory.
        this.openRows--;
        this.forget(message.row);
        return;
      case 'free':
        if (!this.isLast) this.connection?.post(message);
        // At once, too: whoever used the page has been through, but for what of that has yet to be noticed here.
        this.rows.pages.followed.free(message.page);
        return;
      default:
        if (!this.isLast) this.connection?.post(message);
        if (message.kind === 'open') this.openRows++;
        if (this.inbox.length >= this.mostAnnounced)
          throw new PeerError(
            `message: found more than ${this.mostAnnounced} rows and sweeps announced and not computed, expected fewer`,
          );
        this.announcedSize += sizeOf(message);
        if (this.announcedSize > this.mostAnnouncedSize)
          throw new PeerError(
            `message: found rows and sweeps announced of ${this.announcedSize} tokens and rows, expected at most ${this.mostAnnouncedSize}`,
          );
        this.inbox.push(message);
        this.window.ask();
    }
  }

  private join(begin: BeginMessage): BeginMessage {
    const joined = this.setup.join(begin);
    this.shares = joined.sharesPages;
    // Each row that was admitted has a page everywhere.
    const pages = this.setup.pool.keeperCount * total(joined.pages);
    this.mostAnnounced = pages + MOST_SWEEPS;
    // Those that have ended make room for others before they are gone. None is longer than the cache.
    const { slots, rowsPerSlot } = this.setup.grid;
    this.mostAnnouncedSize = MOST_SWEEP_ROWS + 2 * slots * rowsPerSlot * pages * this.setup.pool.pageTokens;
    return joined;
  }

  sourceEnded(): void {
    this.ended = true;
    // Rows that are over have been through. (Those that are not were given up, and their batches with them.)
    const missing = this.connection?.missing ?? 0;
    if (this.openRows === 0 && missing > 0)
      throw new PeerError(
        `message: found the end before the hidden states of ${missing} batches that were announced, expected them first`,
      );
    this.window.ask();
  }

  closing(): void {
    this.inbox.length = 0;
  }

  paused(): void {
    if (!this.ended || this.life.closed) return;
    if (this.openRows > 0) {
      // They were given up before their end, and what is under way for them will not get its inputs.
      this.life.close();
      this.returned$.complete();
    } else if (this.rows.size === 0 && this.window.idle) this.life.finish();
  }

  completed({ event, head }: Completion): void {
    const { part, batch } = event.task;
    const { pass, slot } = batch;
    if (part === 'head' && !event.error && !this.life.closed)
      this.connection?.post({ kind: 'head', pass, slot, output: head ?? NOTHING });
  }

  next(): Square | undefined {
    for (;;) {
      const square = this.squares?.next();
      if (square && square.done !== true) return square.value;
      this.squares = undefined;
      const [message] = this.inbox;
      if (!message) return undefined;
      if (message.kind === 'open' && !this.open(message)) return undefined;
      if (message.kind === 'sweep') this.squares = squaresOf(message, this.setup.grid)[Symbol.iterator]();
      this.inbox.shift();
      this.announcedSize -= sizeOf(message);
    }
  }

  /**
   * False while there is not enough memory for the row's prompt; those that had it before give it back without our
   * doing.
   */
  private open({ row, sequence, newTokens, prefix: isPrefix = false, keeper, sharing }: OpenMessage): boolean {
    if (this.rows.get(row))
      throw new PeerError(`open: found row ${row} a second time, expected it once until it is closed`);
    if (sharing && !this.shares)
      throw new PeerError('open.sharing: found pages that rows share, expected none: not all engines can');
    const given = sequence.tokens.length;
    // No token follows a prefix that it would have to leave out.
    const promptTokens = isPrefix ? given + 1 : given;
    const positions = Math.max(1, promptTokens + newTokens - 1);
    const longest = this.setup.pool.longestRow;
    if (positions > longest)
      throw new PeerError(
        `open: found row ${row} of ${positions} positions, expected at most the ${longest} that the KV cache of this engine holds`,
      );
    const prefix = sharing && this.rows.pages.followed.prefixOf(sharing, sequence.tokens.slice(0, positions));
    const pages = this.rows.pages.take(row, { promptTokens: given, positions }, prefix, this.keeperOf(keeper));
    if (!pages) return false;
    // What is checked next may throw: the run knows of the pages by then, and gives them back.
    this.rows.add(row, { pages, prefix, uses: 0, forgotten: false });
    if (prefix) this.rows.pages.followed.opened(prefix);
    const { shared, sharedTokens } = pages;
    const judged = { row, promptTokens, newTokens, shared, prefix: isPrefix };
    this.window.path.admit(judged);
    this.setup.device.openRow(this.setup.id, row, sequence, pages);
    this.setup.recorder.admitted(judged, given - sharedTokens);
    return true;
  }

  /** @throws PeerError for none of the engines that keep rows */
  private keeperOf(keeper: number | undefined): number {
    const { share } = this.setup.grid;
    const expected = share?.attention ? share.of : 0;
    if (expected === 0 ? keeper === undefined : keeper !== undefined && keeper < expected) return keeper ?? 0;
    throw new PeerError(
      `open.keeper: found ${keeper ?? 'none'}, expected ${expected === 0 ? 'none: every engine keeps all rows' : `one of the ${expected} engines, each of which keeps some rows`}`,
    );
  }

  private forget(row: RowId): void {
    const live = this.rows.get(row);
    // One that is in use for a while yet, and closed, is not open: another one would stay so.
    if (!live || live.forgotten) throw new PeerError(`close: found row ${row}, expected one that is open`);
    if (live.prefix) this.rows.pages.followed.closed(live.prefix);
    live.forgotten = true;
    this.window.path.release(row);
    this.rows.releaseIfUnused(row);
  }
}

function sizeOf(message: OpenMessage | SweepMessage): number {
  if (message.kind === 'sweep') return message.batches.reduce((sum, { rows }) => sum + 1 + rows.length, 0);
  const { tokens, candidates = [] } = message.sequence;
  const { pages = [], own = [] } = message.sharing ?? {};
  return tokens.length + candidates.length + pages.length + own.length;
}
