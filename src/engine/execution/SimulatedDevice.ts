import { Subject } from 'rxjs';
import { TaskError } from '../../errors/TaskError.js';
import type { RowId } from '../schedules/Square.js';
import type { Completion, Device, DeviceRow } from './Device.js';
import { PendingEvent } from './PendingEvent.js';
import { describeTask, QUEUE_NAMES, type HeadOutput, type QueueName, type SampledToken, type Task, type TaskEvent, type Tier } from './Task.js';

export interface SimulationOptions {
  /** Virtual seconds a task takes. Default: 0 for everything. */
  readonly duration?: (task: Task) => number;
  /** The token that a row samples for a position. Default: the position, modulo 1000. */
  readonly sample?: (row: DeviceRow, position: number) => number;
  /** Where computing happens. Default cpu. */
  readonly computeTier?: 'gpu' | 'cpu';
  /** Makes a task fail; for tests. */
  readonly fail?: (task: Task) => string | undefined;
  /** Completions that are announced in one burst. Default 1. */
  readonly burst?: number;
  /**
   * Tasks of a queue start as soon as their events allow, not one after another: a composition that is right here leans on its events alone,
   * never on the order of a queue. For judging compositions. Default false.
   */
  readonly unordered?: boolean;
}

/**
 * A device in virtual time: the same FIFO queues and events, durations from a function, no work done. Plans are predicted on it, schedules
 * are property-tested on it, and people try their own on machines that they don't have.
 */
export class SimulatedDevice implements Device {
  readonly name = 'simulated';
  readonly queues = QUEUE_NAMES;
  readonly computeTier: Tier;
  readonly computeQueue: QueueName;
  readonly completed$ = new Subject<readonly Completion[]>();

  private nextId = 1;
  /** Virtual time at which each queue is free again. */
  private readonly freeAt = new Map<QueueName, number>();
  /** Submitted and timed, not yet announced. */
  private readonly pending: SimulatedEvent[] = [];
  private announcing = false;
  private clock = 0;
  private readonly rows = new Map<number, Map<number, DeviceRow>>();
  private readonly cancelled = new Set<number>();

  constructor(private readonly options: SimulationOptions = {}) {
    this.computeTier = options.computeTier ?? 'cpu';
    this.computeQueue = `${options.computeTier ?? 'cpu'}-compute`;
  }

  /** Virtual time of the last completion that was announced: when whatever reacts to it happens. */
  get announced(): number {
    return this.clock;
  }

  /** Virtual seconds until everything that was submitted is done. */
  get now(): number {
    return Math.max(0, ...this.freeAt.values());
  }

  submit(task: Task, after: readonly TaskEvent[]): TaskEvent {
    // Nothing starts before it was submitted.
    let start = Math.max(this.clock, this.options.unordered === true ? 0 : (this.freeAt.get(task.queue) ?? 0));
    let failed: Task | undefined;
    for (const earlier of after) {
      if (!(earlier instanceof SimulatedEvent)) throw new TypeError(`${describeTask(task)} waits for an event of another device`);
      start = Math.max(start, earlier.outcome.end);
      if (earlier.outcome.reason !== undefined) failed ??= earlier.task;
    }
    const reason = this.cancelled.has(task.run) ? 'cancelled' : failed ? `${describeTask(failed)} failed` : this.options.fail?.(task);
    const end = start + (reason === undefined ? (this.options.duration?.(task) ?? 0) : 0);
    const event = new SimulatedEvent(this.nextId++, task, { start, end, reason });
    this.freeAt.set(task.queue, Math.max(end, this.freeAt.get(task.queue) ?? 0));
    this.pending.push(event);
    if (!this.announcing) {
      this.announcing = true;
      setImmediate(() => this.announce());
    }
    return event;
  }

  openRun(run: number): void {
    this.rows.set(run, new Map());
  }

  closeRun(run: number): void {
    this.rows.delete(run);
    this.cancelled.delete(run);
  }

  openRow(run: number, row: number, sequence: DeviceRow): void {
    this.rows.get(run)?.set(row, sequence);
  }

  closeRow(run: number, row: number): void {
    this.rows.get(run)?.delete(row);
  }

  cancelRun(run: number): void {
    this.cancelled.add(run);
  }

  async close(): Promise<void> {
    while (this.announcing) await new Promise((resolve) => setImmediate(resolve));
    this.completed$.complete();
  }

  /** Announces what ends first, one burst a turn of the event loop, so that whoever reacts to it can submit more in between. */
  private announce(): void {
    let count = this.options.burst ?? 1;
    while (count-- > 0 && this.pending.length > 0) {
      let first = 0;
      this.pending.forEach((event, i) => {
        if (event.outcome.end < (this.pending[first]?.outcome.end ?? 0)) first = i;
      });
      const [event] = this.pending.splice(first, 1);
      if (event) this.completed$.next([this.complete(event)]);
    }
    this.announcing = this.pending.length > 0;
    if (this.announcing) setImmediate(() => this.announce());
  }

  private complete(event: SimulatedEvent): Completion {
    const { start, end, reason } = event.outcome;
    event.timing = { start, end };
    this.clock = Math.max(this.clock, end);
    if (reason !== undefined) event.error = new TaskError(describeTask(event.task), reason);
    if (event.task.part !== 'head' || event.error !== undefined) return { event };
    return { event, head: this.head(event.task) };
  }

  private head(task: Task): HeadOutput {
    const sampled = new Map<RowId, SampledToken>();
    const scored = new Map<RowId, Float32Array>();
    for (const { row, firstPosition, tokens, head } of task.rows) {
      const sequence = this.rows.get(task.run)?.get(row);
      if (!sequence) continue; // ended while its last square was on the way
      const position = firstPosition + tokens;
      if (head === 'score') scored.set(row, new Float32Array(tokens).fill(-1));
      if (head === 'sample') {
        const token = this.options.sample?.(sequence, position) ?? position % 1000;
        const top = Array.from({ length: Math.max(0, sequence.logprobs) }, (_, rank) => ({ token: token + rank, logprob: -1 - rank }));
        sampled.set(row, { token, logprob: sequence.logprobs >= 0 ? -1 : NaN, top });
      }
    }
    return { sampled, scored };
  }
}

/** What will happen is known at submission; it shows on the event only when it is announced. */
class SimulatedEvent extends PendingEvent {
  constructor(
    id: number,
    task: Task,
    readonly outcome: { readonly start: number; readonly end: number; readonly reason: string | undefined },
  ) {
    super(id, task);
  }
}
