import { setImmediate } from 'node:timers/promises';

/** Longer than this signals, timers and sockets do not wait. */
const MILLISECONDS = 10;

/**
 * Gives the event loop its turn in a loop over rows that are at hand already: their promises alone would keep
 * everything else waiting.
 */
export class Turns {
  #last = performance.now();

  /** Tells whether a turn is due. */
  get due(): boolean {
    return performance.now() - this.#last > MILLISECONDS;
  }

  async give(): Promise<void> {
    await setImmediate();
    this.#last = performance.now();
  }
}
