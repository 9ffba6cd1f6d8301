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

/** The tasks of a trace, in nanoseconds: so exactly one that begins when another ends does so there, too. */
export function ranOf(trace: readonly TraceEvent[]): (Ran & { readonly name: string })[] {
  const nanoseconds = (microseconds: number): number => Math.round(microseconds * 1e3);
  return trace.flatMap(({ ph, name, ts, dur = 0 }) =>
    ph === 'X' && !name.startsWith('synchronize')
      ? [{ name, start: nanoseconds(ts), end: nanoseconds(ts) + nanoseconds(dur) }]
      : [],
  );
}
