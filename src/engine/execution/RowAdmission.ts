import { found } from '../../arguments/found.js';
import { ScheduleError } from '../../errors/engineErrors.js';
import type { Device, DeviceRow } from '../grid/Device.js';
import type { Grid, RowId } from '../grid/Square.js';
import type { Admission } from '../memory/PagePool.js';
import type { RowPages } from '../memory/RowPages.js';
import type { JudgedRow } from '../schedules/PathChecker.js';
import type { AdmittedRow, Schedule } from '../schedules/Schedule.js';
import { BlockStart } from './BlockStart.js';
import type { Call } from './Call.js';
import { GREEDY } from './greedy.js';
import type { HeldRows } from './HeldRows.js';
import { inTurn } from './inTurn.js';
import { KeptPlaces } from './KeptPlaces.js';
import type { LiveRow } from './LiveRow.js';
import type { RunLifecycle } from './RunLifecycle.js';
import type { SquareWindow } from './SquareWindow.js';
import { lengthsOf, WaitingRows, type WaitingRow } from './WaitingRows.js';

export interface RowAdmissionSetup {
  readonly id: number;
  readonly device: Device;
  readonly schedule: Schedule;
  /** Most rows that may be under way together, at any time. Default: as many as the grid has places. */
  readonly mostRows?: (() => number) | undefined;
}

export interface RowAdmissionParts<Result> {
  readonly life: RunLifecycle;
  readonly rows: HeldRows<LiveRow<Result>>;
  readonly window: SquareWindow;
  readonly calls: ReadonlySet<Call<Result>>;
  /** Told of each row that is opened. */
  opened(row: JudgedRow, sequence: DeviceRow, pages: RowPages): void;
}

/** Rows that come in with the next sweep. */
export interface Admitted {
  readonly admitted: readonly AdmittedRow[];
  /** Rows that give up their places for a while, to some of these. */
  readonly paused: ReadonlySet<RowId>;
}

/** A row that wants a place: one that waits for its first, or one that had to give its place up. */
type Candidate<Result> = WaitingRow<Result> | LiveRow<Result>;

const NONE: Admitted = { admitted: [], paused: new Set() };

/**
 * Lets rows in as there are places and memory, call by call (`inTurn`). Where no place is free, one of a call that is
 * entitled to it takes that of another call's row, which keeps its memory and goes on where it stopped when it has a
 * place again: a call of a higher priority takes as many as it has rows, but for those that lower ones keep
 * (`KeptPlaces`), one of equal priority its first one.
 */
export class RowAdmission<Result> {
  readonly waiting: WaitingRows<Result>;
  private readonly blockStart: BlockStart;
  private readonly paused = new Set<LiveRow<Result>>();
  private nextRow = 0;

  constructor(
    private readonly setup: RowAdmissionSetup,
    private readonly parts: RowAdmissionParts<Result>,
  ) {
    this.waiting = new WaitingRows(parts.rows.pages);
    this.blockStart = new BlockStart(() => {
      parts.window.ask();
    });
  }

  close(): void {
    this.blockStart.close();
    this.waiting.close();
  }

  /** A row that has given up its place wants it back no more. */
  forget(row: LiveRow<Result>): void {
    this.paused.delete(row);
  }

  /** @param ended rows that have, since the schedule was last asked */
  admit(grid: Grid, state: unknown, ended: ReadonlySet<RowId>): Admitted {
    const { rows, calls } = this.parts;
    const { schedule } = this.setup;
    let waiting = 0;
    let remaining = this.paused.size;
    for (const { feed } of calls) {
      waiting += feed.rows.length;
      remaining += feed.remaining;
    }
    const free = this.freePlaces(grid, state, ended, waiting);
    const mayTake = calls.size > 1 && schedule.steady === 'staggered';
    if (waiting + this.paused.size === 0 || (free <= 0 && !mayTake)) return NONE;
    // The last rows of a block are through for the schedule, but still hold their pages: a block that began now would
    // begin small.
    if (schedule.steady === 'blocks') {
      const complete = waiting >= Math.min(free, remaining) || [...calls].every(({ feed }) => feed.full || feed.ended);
      if (rows.size > 0 || this.blockStart.waits(waiting, complete)) return NONE;
    }
    const admission = rows.pages.admission(Math.max(0, Math.min(free, remaining)), grid.slots);
    const kept = new KeptPlaces(calls, Math.min(grid.slots * grid.rowsPerSlot, this.setup.mostRows?.() ?? Infinity));
    if (schedule.steady !== 'staggered') {
      // Where rows may have to come in together, what they begin with comes in before them: the others of a block would
      // not wait for them.
      const prefixes = this.admitInTurn(free, free, kept, (candidate) =>
        'since' in candidate ? (this.openPrefix(candidate, admission) ?? 'later') : 'later',
      );
      if (prefixes.length > 0) return { admitted: prefixes, paused: NONE.paused };
    }
    const paused = new Set<RowId>();
    const open = (candidate: Candidate<Result>): AdmittedRow | 'later' | undefined =>
      'since' in candidate
        ? (this.openPrefix(candidate, admission) ?? this.openRow(candidate, admission))
        : this.resume(candidate, admission);
    const admitted = this.admitInTurn(free, Infinity, kept, open, (candidate) =>
      mayTake ? this.inPlaceOf(candidate, paused, kept, admission, () => open(candidate)) : undefined,
    );
    return { admitted, paused };
  }

  /**
   * @param most rows that are looked at
   * @param open undefined when there is no room for the row, and no other may pass it
   * @param beyond the same where no place is left
   */
  private admitInTurn(
    places: number,
    most: number,
    kept: KeptPlaces,
    open: (candidate: Candidate<Result>) => AdmittedRow | 'later' | undefined,
    beyond: typeof open = () => undefined,
  ): AdmittedRow[] {
    const admitted: AdmittedRow[] = [];
    let left = places;
    let seen = 0;
    let lacksMemory = false;
    // Where no place is left, none is owed: nobody gives one up to a call of a lower priority.
    for (const candidate of inTurn(this.candidates(), () => (left > 0 ? kept.owed : NONE.paused))) {
      // Whoever is called in between may end the run: rows that come in after that are never released.
      if (seen++ >= most || this.parts.life.closed) break;
      // Rows that have their memory already give it back sooner where they go on.
      if (lacksMemory && 'since' in candidate) continue;
      const row = left > 0 ? open(candidate) : lacksMemory ? undefined : beyond(candidate);
      if (row === 'later') continue;
      if (row) {
        admitted.push(row);
        left--;
      } else if (left <= 0 || this.paused.size === 0) break;
      else lacksMemory = true;
    }
    return admitted;
  }

  /** Lists for each call first the rows that had to give up their places. */
  private candidates(): Map<Call<Result>, Iterable<Candidate<Result>>> {
    const waiting: Map<Call<Result>, Iterable<Candidate<Result>>> = this.waiting.inTurn();
    if (this.paused.size === 0) return waiting;
    const turns: typeof waiting = new Map();
    for (const call of this.parts.calls) {
      const paused = [...this.paused].filter((live) => live.call === call);
      const others = waiting.get(call) ?? [];
      turns.set(call, paused.length > 0 ? [...paused, ...others] : others);
    }
    return turns;
  }

  /** Places for rows that come in now. @throws ScheduleError */
  private freePlaces(grid: Grid, state: unknown, ended: ReadonlySet<RowId>, waiting: number): number {
    const { schedule, mostRows } = this.setup;
    const places: unknown = schedule.free(state, ended);
    if (typeof places !== 'number' || !Number.isSafeInteger(places))
      throw new ScheduleError('complete', `${schedule.name}: free returned ${found(places)}, expected a whole number`);
    // What it says follows from what it has seen, and with no row under way it will see nothing new.
    if (places <= 0 && waiting > 0 && this.parts.rows.size === 0)
      throw new ScheduleError(
        'complete',
        `${schedule.name}: free returned ${places} while rows wait and none is under way: they would never begin`,
      );
    const taken = grid.slots * grid.rowsPerSlot - places;
    return mostRows ? Math.min(places, mostRows() - taken) : places;
  }

  /** Opens a row in the place of another call's, if it is entitled to that, and memory allows both. */
  private inPlaceOf(
    { call }: Candidate<Result>,
    paused: Set<RowId>,
    kept: KeptPlaces,
    admission: Admission,
    open: () => AdmittedRow | 'later' | undefined,
  ): AdmittedRow | 'later' | undefined {
    const victim = this.lastToKeepFrom(call, paused, kept);
    if (!victim) return undefined;
    admission.pause(victim.pages);
    const opened = open();
    if (opened === undefined || opened === 'later') {
      admission.unpause(victim.pages);
      return opened;
    }
    victim.call.running--;
    this.paused.add(victim);
    paused.add(victim.id);
    return opened;
  }

  /** The row whose place a call may take: of the call that has least claim to its own, the one that came in last. */
  private lastToKeepFrom(
    { priority, running }: Call<Result>,
    paused: ReadonlySet<RowId>,
    kept: KeptPlaces,
  ): LiveRow<Result> | undefined {
    const { spent } = kept;
    let victim: LiveRow<Result> | undefined;
    for (const live of this.parts.rows.all()) {
      if (!live.row || live.ended || live.pages.paused || paused.has(live.id)) continue;
      const { call, pages } = live;
      if (pages.lengths.positions - pages.next < 2) continue;
      if (!(
        (call.priority < priority && !spent.has(call.priority)) ||
        (call.priority === priority && running === 0 && call.running > 1)
      ))
        continue;
      const before = victim?.call;
      const less = before && (call.priority - before.priority || before.running - call.running);
      if (less === undefined || less <= 0) victim = live;
    }
    return victim;
  }

  /**
   * Begins to compute the beginning of a prompt, for that row and others, where they should wait for that: to the
   * schedule a row whose tokens are all given and that samples none.
   */
  private openPrefix({ row, path, call }: WaitingRow<Result>, admission: Admission): AdmittedRow | 'later' | undefined {
    const pages = path && admission.admitPrefix(this.nextRow, lengthsOf(row), path, call.priority);
    if (!pages) return undefined;
    if (pages === 'coming') return 'later';
    const { tokens, promptTokens = tokens.length } = row.sequence;
    const first = tokens.slice(0, pages.lengths.positions);
    const given = row.sequence.given?.beginning?.(first.length);
    return this.open(call, undefined, pages, {
      ...GREEDY,
      tokens: first,
      promptTokens,
      capacityTokens: first.length,
      ...(given && { given }),
    });
  }

  private openRow(waiting: WaitingRow<Result>, admission: Admission): AdmittedRow | undefined {
    const { row, call, path } = waiting;
    const pages = admission.admit(this.nextRow, lengthsOf(row), path, call.priority);
    if (!pages) return undefined;
    this.waiting.take(waiting);
    return this.open(call, row, pages, row.sequence);
  }

  private open(call: Call<Result>, waiting: LiveRow<Result>['row'], pages: RowPages, sequence: DeviceRow): AdmittedRow {
    const { device, id } = this.setup;
    const row = this.nextRow++;
    const { shared, sharedTokens } = pages;
    const begin =
      waiting && sharedTokens === 0 ? undefined : { firstPosition: sharedTokens, samples: waiting !== undefined };
    const newTokens = waiting?.newTokens ?? 0;
    this.parts.rows.add(row, {
      id: row,
      row: waiting,
      call,
      newTokens,
      begin,
      pages,
      uses: 0,
      ended: false,
      known: undefined,
      forgotten: false,
    });
    call.running++;
    call.held++;
    // No token follows a prefix that it would have to leave out.
    const promptTokens = sequence.tokens.length + (waiting ? 0 : 1);
    const judged = { row, promptTokens, newTokens, shared, prefix: !waiting };
    this.parts.window.path.admit(judged);
    device.openRow(id, row, sequence, pages);
    this.parts.opened(judged, sequence, pages);
    call.recorder.admitted(judged, sequence.tokens.length - sharedTokens, waiting?.countedTokens);
    return { row, promptTokens: promptTokens - sharedTokens, newTokens, ...priorityOf(call) };
  }

  /** A row goes on in another place: to the schedule a new one, of what is left of it. */
  private resume(live: LiveRow<Result>, admission: Admission): AdmittedRow | 'later' {
    // What was under way for it when it gave up its place may still be.
    if (live.uses > 0) return 'later';
    const { id: row, pages, call, newTokens } = live;
    const { next, sharedTokens, lengths } = pages;
    admission.resume(pages);
    this.paused.delete(live);
    call.running++;
    this.parts.window.path.moves(row);
    live.begin = { firstPosition: next, sharedTokens, samples: true };
    // A token that was sampled is one that is there from the start.
    const promptTokens = Math.max(1, lengths.promptTokens - next);
    const left = newTokens === 0 ? 0 : lengths.positions - next - promptTokens + 1;
    return { row, promptTokens, newTokens: left, ...priorityOf(call) };
  }
}

function priorityOf({ priority }: { readonly priority: number }): Pick<AdmittedRow, 'priority'> {
  return priority === 0 ? {} : { priority };
}
