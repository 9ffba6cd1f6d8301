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
export function inTurns<T>(
  work: Generator<void, T, void>,
  { signal, part = (run) => run() }: TurnOptions = {},
): T | Promise<T> {
  const turns = new Turns();
  const untilDue = (): IteratorResult<void, T> => {
    for (;;) {
      const step = work.next();
      if (step.done === true || turns.due) return step;
    }
  };
  const others = async (): Promise<T> => {
    for (;;) {
      await turns.give();
      signal?.throwIfAborted();
      const step = part(untilDue);
      if (step.done === true) return step.value;
    }
  };
  const step = part(untilDue);
  return step.done === true ? step.value : others();
}
