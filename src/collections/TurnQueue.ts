import { setImmediate } from 'node:timers/promises';

/**
 * Lets those who wait go on one after another, each in a turn of the event loop of its own: however many come at once,
 * sockets and timers are seen to in between.
 */
export class TurnQueue {
  #last: Promise<void> = Promise.resolve();

  /** Resolves when it is the caller's turn. */
  next(): Promise<void> {
    return (this.#last = this.#last.then(() => setImmediate()));
  }
}
