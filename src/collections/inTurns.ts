import type { Work } from './drained.js';
import { Turns } from './Turns.js';

/** How work is done that stops on its way. */
export interface TurnOptions {
  /** It is given up once this fires. */
  readonly signal?: AbortSignal | undefined;
  /** Runs each part of it, for whoever counts the time. */
  readonly part?: <T>(run: () => T) => T;
}

/**
 * Does work that stops on its way, and gives the event loop its turn wherever one is due. What is done within a turn is
 * there at once, without a promise.
 * @throws the signal's reason
 */
export function inTurns<T>(work: Work<T>, { signal, part = (run) => run() }: TurnOptions = {}): T | Promise<T> {
  const turns = new Turns();
  const untilDue = (): IteratorResult<void | Promise<void>, T> => {
    for (;;) {
      const step = work.next();
      if (step.done === true || step.value || turns.due) return step;
    }
  };
  const others = async (begun: void | Promise<void>): Promise<T> => {
    for (let waiting = begun; ;) {
      if (waiting) await unlessAborted(waiting, signal);
      await turns.give();
      // What the work holds it gives back.
      if (signal?.aborted === true) work.throw(signal.reason);
      signal?.throwIfAborted();
      const step = part(untilDue);
      if (step.done === true) return step.value;
      waiting = step.value;
    }
  };
  const step = part(untilDue);
  return step.done === true ? step.value : others(step.value);
}

/** Waits for what is done elsewhere, or until nobody wants it any more. */
async function unlessAborted(waiting: Promise<void>, signal: AbortSignal | undefined): Promise<void> {
  if (!signal) return waiting;
  const ended = new AbortController();
  await Promise.race([
    waiting,
    new Promise((resolve) => {
      if (signal.aborted) resolve(undefined);
      signal.addEventListener('abort', resolve, { signal: ended.signal });
    }),
  ]);
  ended.abort();
}
