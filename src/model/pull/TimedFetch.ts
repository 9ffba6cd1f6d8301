/** How long to wait, in seconds: for an answer, and while a transfer stands still. */
export interface Patience {
  readonly answer: number;
  readonly stall: number;
  /** Before the next attempt, the first time. Default 0.25. */
  readonly pause?: number;
}

/**
 * `fetch` that gives up when no answer comes, and a stream reader that gives up when no bytes come. For one transfer.
 */
export class TimedFetch {
  readonly #controller = new AbortController();

  constructor(
    signal: AbortSignal,
    private readonly patience: Patience,
    /** Function that asks: through a proxy, say. */
    private readonly asks: typeof fetch,
  ) {
    if (signal.aborted) this.#controller.abort(signal.reason);
    else
      signal.addEventListener(
        'abort',
        () => {
          this.#controller.abort(signal.reason);
        },
        { once: true, signal: this.#controller.signal },
      );
  }

  readonly fetch: typeof fetch = async (input, init) => {
    const stop = this.#abortAfter(this.patience.answer, 'no answer');
    try {
      return await this.asks(input, { ...init, signal: this.#controller.signal });
    } finally {
      stop();
    }
  };

  async *read(stream: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
    const reader = stream.getReader();
    try {
      for (;;) {
        const stop = this.#abortAfter(this.patience.stall, 'no data');
        const next = await this.#race(reader.read()).finally(stop);
        if (next.done) return;
        yield next.value;
      }
    } finally {
      // Also when the consumer stops early: the connection must not stay open behind its back.
      this.#controller.abort(new Error('the download was given up'));
      reader.releaseLock();
    }
  }

  /** The library's streams do not always pass an abort on, so the wait itself must end with it. */
  #race<T>(promise: Promise<T>): Promise<T> {
    const { signal } = this.#controller;
    return new Promise<T>((resolve, reject) => {
      const abort = (): void => {
        reject(new Error('the download was stopped', { cause: signal.reason }));
      };
      if (signal.aborted) abort();
      else signal.addEventListener('abort', abort, { once: true });
      // Also where the wait is over already: nobody else looks at what it rejects with.
      promise.then(resolve, reject).finally(() => {
        signal.removeEventListener('abort', abort);
      });
    });
  }

  #abortAfter(seconds: number, what: string): () => void {
    const timer = setTimeout(() => {
      this.#controller.abort(new Error(`${what} within ${seconds} s`));
    }, seconds * 1000);
    return () => {
      clearTimeout(timer);
    };
  }
}
