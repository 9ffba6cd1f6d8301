type Step<T> = IteratorResult<T, void>;
const DONE = { done: true, value: undefined } as const;

/** Values that wait in a channel, first in, first out. */
export interface Queue<T> {
  readonly length: number;
  /** @throws where no more may wait: the channel ends with that */
  push(value: T): void;
  /** @throws where what waits cannot be read any more: the channel ends with that */
  shift(): T;
  clear(): void;
}

/** Who fills a channel. */
export interface ChannelSource<T> {
  /** Somebody asks for a value, and none waits: `push` it, now or later, or end the channel. */
  wanted(): void;
  /** Nothing more is wanted. Called once at most, and not after the source itself has ended the channel. */
  stop(): void;
  /** A value is handed to the consumer. */
  taken?(value: T): void;
  /** Awaited before the consumer is told of the end, in whatever way it comes. */
  settled?(): Promise<void>;
}

/**
 * Values from whoever pushes to whoever pulls. Written by hand, as an async generator takes its `return` only after the
 * value that it awaits, which may never come: here it is immediate.
 */
export class Channel<T> implements AsyncGenerator<T, void, undefined> {
  /** Who awaits a value; nobody does while some wait. */
  private readonly readers: { readonly resolve: (step: Step<T>) => void; readonly reject: (error: unknown) => void }[] =
    [];
  private end: { readonly error?: unknown } | undefined;

  /** @param queue what waits; default: any number of values, in memory */
  constructor(
    private readonly source: ChannelSource<T>,
    private readonly queue: Queue<T> = new Fifo(),
  ) {}

  push(value: T): void {
    if (this.end) return;
    const reader = this.readers.shift();
    if (reader) reader.resolve(this.given(value));
    else this.orAbort(() => this.queue.push(value));
  }

  /** No value follows those that wait. */
  close(): void {
    this.endWith({});
  }

  /** No value follows those that wait, but this error. */
  fail(error: unknown): void {
    this.endWith({ error });
  }

  /** Ends at once: what waits is given up. @param end with an error, where there is one */
  abort(end: { readonly error?: unknown } = {}): void {
    const stop = !this.end;
    this.queue.clear();
    this.end = end;
    if (stop) this.source.stop();
    this.tell();
  }

  async next(): Promise<Step<T>> {
    if (!this.end && this.queue.length === 0) this.source.wanted();
    if (this.queue.length > 0) {
      const value = this.orAbort(() => this.queue.shift());
      if (value) return this.given(value.made);
    }
    if (this.end) return this.over();
    return new Promise((resolve, reject) => this.readers.push({ resolve, reject }));
  }

  async return(): Promise<Step<T>> {
    this.abort();
    return this.over();
  }

  async throw(error: unknown): Promise<Step<T>> {
    await this.return();
    throw error;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.return();
  }

  private given(value: T): Step<T> {
    this.source.taken?.(value);
    return { done: false, value };
  }

  private orAbort<Made>(make: () => Made): { readonly made: Made } | undefined {
    try {
      return { made: make() };
    } catch (error) {
      this.abort({ error });
      return undefined;
    }
  }

  private endWith(end: { readonly error?: unknown }): void {
    if (this.end) return;
    this.end = end;
    this.tell();
  }

  /** Nothing more will come: tells those who wait. */
  private tell(): void {
    for (const { resolve, reject } of this.readers.splice(0)) this.over().then(resolve, reject);
  }

  /** The end, which has its error once. */
  private async over(): Promise<Step<T>> {
    const end = this.end ?? {};
    this.end = {};
    await this.source.settled?.();
    if ('error' in end) throw end.error;
    return DONE;
  }
}

/** A queue in memory. */
export class Fifo<T> implements Queue<T> {
  /** The values; one taken is not held: it may be megabytes. */
  private values: (T | undefined)[] = [];
  private head = 0;

  get length(): number {
    return this.values.length - this.head;
  }

  push(value: T): void {
    this.values.push(value);
  }

  shift(): T {
    const value = this.values[this.head] as T;
    this.values[this.head++] = undefined;
    // Not one by one: that would move all others each time.
    if (this.head > 1024 || this.length === 0) this.head -= this.values.splice(0, this.head).length;
    return value;
  }

  clear(): void {
    this.values = [];
    this.head = 0;
  }
}
