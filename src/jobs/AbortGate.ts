import { InterruptedError } from '../errors/InterruptedError.js';

/**
 * Waits for promises one after another, and no longer than a signal allows: a source that sleeps (a pipe nobody writes
 * to) must not hold up the end of a run. One listener in all, so waiting a million times leaves nothing behind.
 */
export class AbortGate implements Disposable {
  #reject: ((error: InterruptedError) => void) | undefined;
  readonly #onAbort = (): void => this.#reject?.(new InterruptedError(this.signal?.reason));

  constructor(private readonly signal: AbortSignal | undefined) {
    signal?.addEventListener('abort', this.#onAbort);
  }

  /** @throws InterruptedError when the signal fires first, or has fired */
  async wait<T>(promise: Promise<T>): Promise<T> {
    const { signal } = this;
    if (signal === undefined) return promise;
    return new Promise<T>((resolve, reject) => {
      this.#reject = reject;
      // After an abort the promise is left to itself; its handlers are set, so a late rejection is no unhandled one.
      promise.then(resolve, reject);
      if (signal.aborted) this.#onAbort();
    }).finally(() => {
      this.#reject = undefined;
    });
  }

  [Symbol.dispose](): void {
    this.signal?.removeEventListener('abort', this.#onAbort);
  }
}
