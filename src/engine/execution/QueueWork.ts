import type { RunStats } from '../../RunStats.js';
import type { QueueName, Task, TaskEvent } from '../grid/Task.js';
import { BusyTime } from './BusyTime.js';

/** The work that a device's queues have done: how long each was busy, how many tasks it had, and the bytes of these. */
export class QueueWork {
  private readonly queues = new Map<QueueName, { readonly busy: BusyTime; tasks: number; bytes: number }>();

  add({ queue, bytes }: Pick<Task, 'queue' | 'bytes'>, { start, end }: NonNullable<TaskEvent['timing']>): void {
    let sums = this.queues.get(queue);
    if (!sums) this.queues.set(queue, (sums = { busy: new BusyTime(), tasks: 0, bytes: 0 }));
    sums.busy.add(start, end);
    sums.tasks++;
    sums.bytes += bytes;
  }

  /** Until now. */
  get sums(): RunStats['queues'] {
    return Object.fromEntries(
      Array.from(this.queues, ([queue, { busy, ...sums }]) => [queue, { busySeconds: busy.seconds, ...sums }]),
    );
  }
}
