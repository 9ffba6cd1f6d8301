import type { Observable } from 'rxjs';
import type { EngineActivity, TaskStretch } from '../../RunStats.js';
import type { Completion } from '../grid/Device.js';
import { tokensByPhase, type Batch } from '../grid/Square.js';
import { hopsOf, type QueueName, type Task, type TaskEvent } from '../grid/Task.js';
import { QueueWork } from './QueueWork.js';
import type { MemoryUse } from './RunRecorder.js';

/** The length of the past that is kept, and its grain: at most one stretch of a queue begins in a grain of time. */
const SECONDS = 10;
const GRAIN_SECONDS = 0.005;
/** For whoever never asks. */
const MOST_STRETCHES = 16_384;

type GrowingStretch = { -readonly [Name in keyof TaskStretch]: TaskStretch[Name] };

/**
 * A record of all that a device has done, whoever's runs it worked for, for somebody who looks now and then. It takes
 * little of each task and keeps little of the past.
 */
export class DeviceActivity {
  private readonly queues = new QueueWork();
  /** The last stretch of each queue. */
  private readonly last = new Map<QueueName, GrowingStretch>();
  private stretches: TaskStretch[] = [];
  private readonly tokens = { prompt: 0, generated: 0 };
  /** Batches that have been counted: all layers have the same. */
  private readonly counted = new WeakSet<Batch>();

  /** @param completed$ of the device */
  constructor(
    completed$: Observable<readonly Completion[]>,
    private readonly memory: () => MemoryUse,
  ) {
    completed$.subscribe((burst) => {
      for (const { event } of burst) this.completed(event);
    });
  }

  read(): EngineActivity {
    const at = performance.now() / 1000;
    this.stretches = this.stretches.filter(({ end }) => end > at - SECONDS);
    return {
      at,
      tokens: { ...this.tokens },
      queues: this.queues.sums,
      memory: this.memory(),
      stretches: this.stretches.map((stretch) => ({ ...stretch })),
    };
  }

  private completed({ task, timing, error }: TaskEvent): void {
    if (!timing || error) return;
    for (const hop of hopsOf(task)) {
      this.queues.add(hop, timing);
      this.draw(hop, timing);
    }
    if (task.name === 'compute' && !this.counted.has(task.batch)) this.count(task.batch);
  }

  private count(batch: Batch): void {
    this.counted.add(batch);
    this.tokens.prompt += tokensByPhase(batch).prompt;
    for (const { head } of batch.rows) if (head === 'sample') this.tokens.generated++;
  }

  /** Tasks of a kind that follow one another closely are one stretch. */
  private draw({ queue, name }: Pick<Task, 'queue' | 'name'>, { start, end }: NonNullable<TaskEvent['timing']>): void {
    const last = this.last.get(queue);
    const close = last !== undefined && start < last.start + GRAIN_SECONDS;
    if (
      close ||
      (last?.name === name && start < last.end + GRAIN_SECONDS / 5 && end < last.start + 4 * GRAIN_SECONDS)
    ) {
      last.end = Math.max(last.end, end);
      last.tasks++;
      return;
    }
    const next = { queue, name, start, end, tasks: 1 };
    this.last.set(queue, next);
    this.stretches.push(next);
    if (this.stretches.length > MOST_STRETCHES) this.stretches.splice(0, MOST_STRETCHES / 2);
  }
}
