/**
 * What is made of an input by reading it, such that `return` ends the input at once: also while a value of it is
 * awaited, which the makers of iterators (async generators) would have to wait for, and which may never come.
 *
 * @param make reads the input that it is given, to its end
 */
export function endingAtOnce<Input, Output>(
  input: AsyncIterable<Input> | Iterable<Input>,
  make: (input: AsyncIterable<Input>) => AsyncGenerator<Output, void, undefined>,
): AsyncIterator<Output, void, undefined> {
  const reader = new InputReader(input);
  const made = make(reader);
  return {
    next: () => made.next(),
    return: async () => {
      reader.end();
      return made.return();
    },
  };
}

type Step<T> = IteratorResult<T, void>;
const DONE = { done: true, value: undefined } as const;

/** Reads an input, once, until it ends or is ended. */
class InputReader<T> implements AsyncIterableIterator<T, void, undefined> {
  private iterator: AsyncIterator<T, unknown> | Iterator<T, unknown> | undefined;
  /** The input is being asked: a generator cannot be ended just then. */
  private asking = false;
  private ended = false;
  private release: (step: Step<T>) => void = () => undefined;

  constructor(private readonly input: AsyncIterable<T> | Iterable<T>) {}

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<Step<T>> {
    if (this.ended) return DONE;
    this.iterator ??= iteratorOf(this.input);
    return Promise.race([new Promise<Step<T>>((resolve) => (this.release = resolve)), this.ask(this.iterator)]);
  }

  return(): Promise<Step<T>> {
    this.end();
    return Promise.resolve(DONE);
  }

  /** The value that is awaited is given up, if there is one; none follows. */
  end(): void {
    if (this.ended) return;
    this.ended = true;
    this.release(DONE);
    if (!this.asking) this.tell();
  }

  private async ask(iterator: NonNullable<typeof this.iterator>): Promise<Step<T>> {
    this.asking = true;
    let step;
    try {
      step = iterator.next();
    } finally {
      this.asking = false;
      // Ended from within.
      if (this.ended) this.tell();
    }
    const { done, value } = await step;
    if (done === true) {
      this.ended = true;
      return DONE;
    }
    // An iterable that is not asynchronous may hold promises.
    return { done: false, value: await value };
  }

  /** Tells the input that nobody reads on. What it answers is of no interest any more. */
  private tell(): void {
    try {
      Promise.resolve(this.iterator?.return?.()).catch(() => undefined);
    } catch {
      // The same.
    }
  }
}

function iteratorOf<T>(input: AsyncIterable<T> | Iterable<T>): AsyncIterator<T, unknown> | Iterator<T, unknown> {
  return (input as Partial<AsyncIterable<T>>)[Symbol.asyncIterator]?.() ?? (input as Iterable<T>)[Symbol.iterator]();
}
