import { Subject } from 'rxjs';
import { TaskError } from '../../errors/engineErrors.js';
import type { RowId } from '../grid/Square.js';
import type { Completion, Device, DevicePeers, DeviceRow } from '../grid/Device.js';
import { PendingEvent } from './PendingEvent.js';
import {
  describeTask,
  hopsOf,
  QUEUE_NAMES,
  type HeadOutput,
  type QueueName,
  type SampledToken,
  type Task,
  type TaskEvent,
} from '../grid/Task.js';
import type { ComputeTier } from '../grid/Tier.js';
import { VirtualTime } from './VirtualTime.js';

export interface SimulationOptions {
  /** Virtual seconds a task takes. Default: 0 for everything. */
  readonly duration?: (task: Task) => number;
  /** The token that a row samples for a position. Default: the position, modulo 1000. */
  readonly sample?: (row: DeviceRow, position: number) => number;
  /**
   * Tokens that are forced after the one that a row samples for a position; they are those that it would sample.
   * Default: none.
   */
  readonly forced?: (row: DeviceRow, position: number) => number;
  /** Where computing happens. Default cpu. */
  readonly computeTier?: ComputeTier;
  /** True where the processor attends beside a GPU: on a queue of its own. Default false. */
  readonly hostAttends?: boolean;
  /** The virtual seconds of such attention for which the GPU is busy, too. Default: 0. */
  readonly gpuAttention?: (task: Task) => number;
  /**
   * True where weights give way on the link and on the disk, as a real device's do to pages of the cache that come to a
   * GPU: they come in pieces, between what else crosses them (hidden states share them with weights there). Default
   * false.
   */
  readonly pagesFirst?: boolean;
  /** Makes a task fail; for tests. */
  readonly fail?: (task: Task) => string | undefined;
  /** Completions that are announced in one burst. Default 1. */
  readonly burst?: number;
  /**
   * Tasks of a queue start as soon as their events allow, not one after another: a composition that is right here leans
   * on its events alone, never on the order of a queue. For judging compositions. Default false.
   */
  readonly unordered?: boolean;
  /** The clock, where devices that are connected are simulated together; `burst` is its own then. */
  readonly time?: VirtualTime;
}

/** Pieces that weights come in where they give way. */
const PIECES = 32;

/**
 * A device in virtual time: the same queues and events, durations from a function, no work done. Plans are
 * predicted on it, schedules are property-tested on it, and people try their own on machines that they don't have.
 */
export class SimulatedDevice implements Device {
  readonly name = 'simulated';
  readonly queues = QUEUE_NAMES;
  readonly computeTier: ComputeTier;
  readonly computeQueue: QueueName;
  readonly attendQueue: QueueName;
  readonly completed$ = new Subject<readonly Completion[]>();

  private nextId = 1;
  private readonly time: VirtualTime;
  /** Virtual time at which each queue is free again, as far as that is known. */
  private readonly freeAt = new Map<Lane, number>();
  /** The free times of a compute queue whose tasks overtake those that wait for attention. */
  private readonly gaps: Gaps | undefined;
  /** The last task of each queue. */
  private readonly tails = new Map<Lane, SimulatedEvent>();
  /** The transfers that go before weights, and the piece of the weights under way. */
  private readonly shared = new Map<QueueName, SharedLink>();
  private readonly rows = new Map<number, Map<number, SimulatedRow>>();
  private readonly peers = new Map<number, DevicePeers>();
  /** Tasks that wait for a peer, each with what fails it. */
  private readonly waiting = new Map<SimulatedEvent, () => void>();
  private readonly cancelled = new Set<number>();

  constructor(private readonly options: SimulationOptions = {}) {
    this.computeTier = options.computeTier ?? 'cpu';
    this.computeQueue = `${options.computeTier ?? 'cpu'}-compute`;
    this.attendQueue = options.hostAttends === true ? 'cpu-compute' : this.computeQueue;
    if (this.attendQueue !== this.computeQueue) this.gaps = new Gaps();
    this.time = options.time ?? new VirtualTime(options.burst);
  }

  /** Virtual time of the last completion that was announced: when whatever reacts to it happens. */
  get announced(): number {
    return this.time.now;
  }

  /** Virtual seconds until everything that was submitted is done. */
  get now(): number {
    return Math.max(0, ...this.freeAt.values());
  }

  submit(task: Task, after: readonly TaskEvent[]): TaskEvent {
    const event = new SimulatedEvent(this.nextId++, task);
    const before = [...after].map((earlier) => {
      if (!(earlier instanceof SimulatedEvent))
        throw new TypeError(`${describeTask(task)} waits for an event of another device`);
      return earlier;
    });
    // Messages to and from a peer keep their order whatever else does.
    const ordered =
      task.queue === 'peer-receive' ||
      task.queue === 'peer-send' ||
      (this.options.unordered !== true && !this.overtakes(task));
    const queues = this.lanesOf(task);
    const submitted = this.time.now;
    const begin = (): void => {
      const free = ordered ? queues.map((queue) => this.freeAt.get(queue) ?? 0) : [];
      this.begin(event, before, Math.max(submitted, ...free));
    };
    const open = new Set(before.filter(({ outcome }) => !outcome));
    for (const queue of queues) {
      const tail = this.tails.get(queue);
      if (ordered && tail && !tail.outcome) open.add(tail);
      this.tails.set(queue, event);
    }
    let left = open.size;
    if (left === 0) begin();
    for (const each of open) {
      each.known.push(() => {
        if (--left === 0) begin();
      });
    }
    return event;
  }

  openRun(run: number, { peers }: { readonly peers?: DevicePeers | undefined } = {}): void {
    this.rows.set(run, new Map());
    if (peers) this.peers.set(run, peers);
  }

  closeRun(run: number): void {
    this.rows.delete(run);
    this.peers.delete(run);
    this.cancelled.delete(run);
  }

  openRow(run: number, row: number, sequence: DeviceRow): void {
    this.rows.get(run)?.set(row, { sequence, known: 0 });
  }

  closeRow(run: number, row: number): void {
    this.rows.get(run)?.delete(row);
  }

  cancelRun(run: number): void {
    this.cancelled.add(run);
    for (const [{ task }, fail] of [...this.waiting]) if (task.run === run) fail();
  }

  async close(): Promise<void> {
    while (!this.time.idle) await new Promise((resolve) => setImmediate(resolve));
    this.completed$.complete();
  }

  /** The queues that a task takes; weights that give way are in order among themselves alone. */
  private lanesOf(task: Task): readonly Lane[] {
    return hopsOf(task).map(({ queue }): Lane => (this.givesWay(task) ? `weights ${queue}` : queue));
  }

  private givesWay({ name }: Task): boolean {
    return this.options.pagesFirst === true && this.options.unordered !== true && name === 'load_weight';
  }

  private linksOf(task: Task): readonly SharedLink[] {
    return hopsOf(task).map(({ queue }) => {
      const link = this.shared.get(queue) ?? new SharedLink();
      this.shared.set(queue, link);
      return link;
    });
  }

  private overtakes({ queue }: Task): boolean {
    return this.gaps !== undefined && queue === this.computeQueue;
  }

  /** Everything that the task waits for has an outcome. */
  private begin(event: SimulatedEvent, before: readonly SimulatedEvent[], earliest: number): void {
    const { task } = event;
    let start = earliest;
    let failed: Task | undefined;
    for (const { task: earlier, outcome } of before) {
      if (!outcome) continue;
      start = Math.max(start, outcome.end);
      if (outcome.reason !== undefined) failed ??= earlier;
    }
    const reason = this.cancelled.has(task.run)
      ? 'cancelled'
      : failed
        ? `${describeTask(failed)} failed`
        : this.options.fail?.(task);
    const seconds = reason === undefined ? (this.options.duration?.(task) ?? 0) : 0;
    if (reason === undefined && task.from === 'peer') this.receive(event, start, seconds);
    else if (reason === undefined && task.to === 'peer') this.send(event, start, seconds);
    else if (this.givesWay(task) && seconds > 0) this.moveInPieces(event, start, seconds);
    else {
      if (this.options.pagesFirst === true && seconds > 0) {
        const links = this.linksOf(task);
        start = Math.max(start, ...links.map((link) => link.afterPiece(start)));
        for (const link of links) link.take(start, start + seconds, this.time.now);
      }
      let end = start + seconds;
      if (this.gaps && this.options.unordered !== true) {
        if (this.overtakes(task)) {
          start = this.gaps.take(start, seconds, this.time.now);
          end = start + seconds;
        } else if (task.part === 'attend') {
          // The GPU's part, as soon as it has time; the processor does not wait for that.
          const gpu = this.options.gpuAttention?.(task) ?? 0;
          end = Math.max(end, this.gaps.take(start, gpu, this.time.now) + gpu);
        }
      }
      this.settle(event, { start, end, reason });
    }
  }

  /** Moves what weights have left to move whenever nothing that goes before them is on any of their links. */
  private moveInPieces(event: SimulatedEvent, start: number, seconds: number): void {
    const links = this.linksOf(event.task);
    let left = seconds;
    const goOn = (): void => {
      const { now } = this.time;
      const free = Math.max(now, ...links.map((link) => link.freeFrom(now)));
      if (free > now) {
        this.time.at(free, goOn);
        return;
      }
      const piece = Math.min(left, seconds / PIECES, ...links.map((link) => link.takenFrom(now) - now));
      for (const link of links) link.piece = { start: now, end: now + piece };
      left -= piece;
      if (left > 1e-9 * seconds) this.time.at(now + piece, goOn);
      else this.settle(event, { start, end: now + piece, reason: undefined });
    };
    this.time.at(start, goOn);
  }

  private receive(event: SimulatedEvent, start: number, seconds: number): void {
    this.await(event, this.peersOf(event.task).receive(event.task), () => {
      const arrived = Math.max(start, this.time.now);
      return { start: arrived, end: arrived + seconds };
    });
  }

  private send(event: SimulatedEvent, start: number, seconds: number): void {
    this.time.at(start + seconds, () => {
      if (event.outcome) return;
      const peers = this.peersOf(event.task);
      const nothing = new Float32Array(0);
      if (event.task.name === 'all_reduce')
        // It has ended when the others' sums have come.
        this.await(event, peers.reduce(event.task, nothing), () => ({
          start,
          end: Math.max(start + seconds, this.time.now),
        }));
      else if (event.task.name === 'all_to_all' || event.task.name === 'all_to_all_back')
        this.await(
          event,
          peers.exchange(event.task, new Float32Array(0), () => 0),
          () => ({
            start,
            end: Math.max(start + seconds, this.time.now),
          }),
        );
      else this.await(event, peers.send(event.task, nothing), () => ({ start, end: start + seconds }));
    });
    this.waiting.set(event, () => {
      this.settle(event, { start, end: start, reason: 'cancelled' });
    });
  }

  private await(
    event: SimulatedEvent,
    peer: Promise<unknown>,
    timing: () => { readonly start: number; readonly end: number },
  ): void {
    const fail = (reason: string): void => {
      this.settle(event, { start: this.time.now, end: this.time.now, reason });
    };
    this.waiting.set(event, () => {
      fail('cancelled');
    });
    peer.then(
      () => {
        this.settle(event, { ...timing(), reason: undefined });
      },
      (error: unknown) => {
        fail(error instanceof Error ? error.message : String(error));
      },
    );
  }

  private peersOf(task: Task): DevicePeers {
    const peers = this.peers.get(task.run);
    if (!peers) throw new TaskError(describeTask(task), 'the run has no peers');
    return peers;
  }

  /** Notes what will become of the task; it shows on the task's event when its time has come. */
  private settle(event: SimulatedEvent, outcome: Outcome): void {
    if (event.outcome) return;
    event.outcome = outcome;
    this.waiting.delete(event);
    for (const queue of this.lanesOf(event.task))
      this.freeAt.set(queue, Math.max(outcome.end, this.freeAt.get(queue) ?? 0));
    this.time.at(outcome.end, () => {
      this.completed$.next([this.complete(event, outcome)]);
    });
    for (const know of event.known.splice(0)) know();
  }

  private complete(event: SimulatedEvent, { start, end, reason }: Outcome): Completion {
    event.settle({ start, end }, reason === undefined ? undefined : new TaskError(describeTask(event.task), reason));
    if (event.task.part !== 'head' || event.error !== undefined) return { event };
    return { event, head: this.head(event.task) };
  }

  private head(task: Task): HeadOutput {
    const sampled = new Map<RowId, SampledToken>();
    const scored = new Map<RowId, Float32Array>();
    for (const { row, firstPosition, tokens, head } of task.batch.rows) {
      const simulated = this.rows.get(task.run)?.get(row);
      if (!simulated) continue; // ended while its last square was on the way
      const { sequence } = simulated;
      const position = firstPosition + tokens;
      if (head === 'score') scored.set(row, new Float32Array(tokens).fill(-1));
      if (head === 'sample' && position >= simulated.known) {
        const sample = (at: number): number => this.options.sample?.(sequence, at) ?? at % 1000;
        const token = sample(position);
        const forced = Array.from({ length: this.options.forced?.(sequence, position) ?? 0 }, (_, nth) =>
          sample(position + 1 + nth),
        );
        simulated.known = position + 1 + forced.length;
        const alternatives =
          sequence.candidates ?? Array.from({ length: Math.max(0, sequence.logprobs) }, (_, rank) => token + rank);
        const top = alternatives.map((alternative, rank) => ({ token: alternative, logprob: -1 - rank }));
        sampled.set(row, {
          token,
          logprob: sequence.logprobs >= 0 ? -1 : NaN,
          top,
          ...(sequence.certainty === true && { certainty: 0.5 }),
          ...(forced.length > 0 && { forced }),
        });
      }
    }
    return { sampled, scored };
  }
}

/**
 * When a queue is busy whose tasks begin as soon as they may: what is submitted later has the gaps that what waits
 * leaves.
 */
class Gaps {
  /** Busy stretches, in order, none before the time at hand. */
  private busy: { readonly start: number; readonly end: number }[] = [];

  /** Takes the first gap of so many seconds that begins at `earliest` or later. @returns when */
  take(earliest: number, seconds: number, now: number): number {
    this.busy = this.busy.filter(({ end }) => end > now);
    let start = earliest;
    let place = 0;
    for (const each of this.busy) {
      if (each.start >= start + seconds && each.start > start) break;
      start = Math.max(start, each.end);
      place++;
    }
    if (seconds > 0) this.busy.splice(place, 0, { start, end: start + seconds });
    return start;
  }
}

/** A queue, or the weights' turns on it. */
type Lane = QueueName | `weights ${QueueName}`;

/** A link on which weights give way. */
class SharedLink {
  /** The weights' last piece: whatever begins in the middle of it waits for its end. */
  piece = { start: 0, end: 0 };
  /** When others have the link, in order, as far as is known; nothing that has ended. */
  private taken: { readonly start: number; readonly end: number }[] = [];

  afterPiece(time: number): number {
    return time >= this.piece.start && time < this.piece.end ? this.piece.end : time;
  }

  take(start: number, end: number, now: number): void {
    this.taken = this.taken.filter((each) => each.end > now);
    this.taken.push({ start, end });
  }

  /** From when on nobody has the link, seen from a time. */
  freeFrom(time: number): number {
    return this.taken.reduce((free, { start, end }) => (start <= free && end > free ? end : free), time);
  }

  /** When somebody takes the link next. */
  takenFrom(time: number): number {
    return Math.min(Infinity, ...this.taken.filter(({ start }) => start > time).map(({ start }) => start));
  }
}

interface SimulatedRow {
  readonly sequence: DeviceRow;
  /** Tokens that it has: its prompt's do not count. */
  known: number;
}

interface Outcome {
  readonly start: number;
  readonly end: number;
  readonly reason: string | undefined;
}

/** An event whose outcome is mostly known at submission; the outcome shows on it only when it is announced. */
class SimulatedEvent extends PendingEvent {
  outcome: Outcome | undefined;
  /** Called when the outcome is known. */
  readonly known: (() => void)[] = [];
}
