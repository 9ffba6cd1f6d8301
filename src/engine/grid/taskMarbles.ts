import { UsageError } from '../../errors/UsageError.js';
import { hopsOf, QUEUE_NAMES, type Task, type TaskEvent } from './Task.js';

export interface TaskMarblesOptions {
  /** Seconds of one character. Default 1. */
  readonly frame?: number;
  /** One character for a task, where it starts. Default: its layer in base 36, modulo 36. */
  readonly mark?: (task: Task) => string;
}

/** Beyond that nobody reads a diagram; a frame of nanoseconds would fill the memory. */
const MOST_FRAMES = 10_000;

/**
 * Draws what ran when, as RxJS draws streams: a lane for each queue that had something to do, from the first start to
 * the last end. `-` a frame in which nothing ran, a task's mark where it starts, `=` while it goes on, `*` where
 * several of the queue's tasks start in one frame, `|` the end.
 *
 *     disk-read    0=1=2=--|
 *     cpu-compute  --0=1=2=|
 *
 * For tests of schedules and pipelines on a `SimulatedDevice`: what overlaps can be seen, and compared as a text.
 * @param events what `submit` returned; those that have not completed are left out
 * @throws UsageError for a frame that is not above 0, or so short that the diagram has more than 10,000 frames
 */
export function taskMarbles(events: Iterable<TaskEvent>, options: TaskMarblesOptions = {}): string {
  const { frame = 1, mark = ({ layer }) => (layer % 36).toString(36) } = options;
  if (!(frame > 0)) throw new UsageError(`frame: found ${frame}, expected seconds above 0`);
  const runs = [...events].flatMap(({ task, timing }) =>
    timing ? hopsOf(task).map((hop) => ({ task: hop, ...timing })) : [],
  );
  if (runs.length === 0) return '';
  // One by one: a long run has more tasks than a call may have arguments.
  const began = runs.reduce((least, { start }) => Math.min(least, start), Infinity);
  // Sums of seconds are off by a few units in the last place; a task that ends with a frame does not reach the next.
  const frameOf = (time: number): number => Math.floor((time - began) / frame + 1e-6);
  const length = runs.reduce((most, { start, end }) => Math.max(most, frameOf(start) + 1, lastFrame(end) + 1), 0);
  if (length > MOST_FRAMES)
    throw new UsageError(`frame: found ${frame}, which makes ${length} frames, expected at most ${MOST_FRAMES}`);
  const lanes = QUEUE_NAMES.flatMap((queue) => {
    const own = runs.filter(({ task }) => task.queue === queue);
    return own.length === 0 ? [] : [{ queue, cells: laneOf(own) }];
  });
  const widest = Math.max(...lanes.map(({ queue }) => queue.length));
  return lanes.map(({ queue, cells }) => `${queue.padEnd(widest)}  ${cells.join('')}|`).join('\n');

  function lastFrame(end: number): number {
    return Math.ceil((end - began) / frame - 1e-6) - 1;
  }

  function laneOf(own: typeof runs): string[] {
    const cells = new Array<string>(length).fill('-');
    for (const { start, end } of own) cells.fill('=', frameOf(start), lastFrame(end) + 1);
    const starts = new Map<number, number>();
    for (const { task, start } of own) {
      const at = frameOf(start);
      starts.set(at, (starts.get(at) ?? 0) + 1);
      cells[at] = starts.get(at) === 1 ? mark(task) : '*';
    }
    return cells;
  }
}
