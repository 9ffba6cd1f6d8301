import type { TraceEvent } from '../../src/index.js';

/** When a task ran, in any one unit. */
interface Ran {
  readonly start: number;
  readonly end: number;
}

/**
 * Of tasks in any order: the pairs, next to each other by their start, of which the later began before the earlier
 * ended.
 */
export function tasksAtOnce<Task extends Ran>(tasks: readonly Task[]): (readonly [Task, Task])[] {
  const inOrder = tasks.filter(({ start, end }) => end > start).sort((a, b) => a.start - b.start);
  return inOrder.slice(1).flatMap((later, at) => {
    const earlier = inOrder[at];
    return earlier !== undefined && later.start < earlier.end ? [[earlier, later] as const] : [];
  });
}

/**
 * The tasks of a trace, in nanoseconds: so exactly one that begins when another ends does so there, too. A task that
 * uses several links has an event on the track of each, all of the same times; it counts once.
 */
export function ranOf(trace: readonly TraceEvent[]): (Ran & { readonly task: string })[] {
  const nanoseconds = (microseconds: number): number => Math.round(microseconds * 1e3);
  const tasks = trace.flatMap(({ ph, name, ts, dur = 0, args: { pass, layer, slot } }) => {
    const start = nanoseconds(ts);
    const ran = { task: [name, pass, layer, slot].join(' '), start, end: start + nanoseconds(dur) };
    return ph === 'X' && !name.startsWith('synchronize') ? [[JSON.stringify(ran), ran] as const] : [];
  });
  return [...new Map(tasks).values()];
}
