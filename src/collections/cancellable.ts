import { Channel } from './Channel.js';

/**
 * An input that whoever reads it can leave at once, with `return` or `abort`, also while a value of it is awaited. The
 * input is told so, once, and what it answers is of no interest any more.
 */
export function cancellable<T>(input: AsyncIterable<T> | Iterable<T>): Channel<T> {
  let iterator: AsyncIterator<T, unknown> | Iterator<T, unknown> | undefined;
  /** The input is being asked: a generator cannot be ended just then. */
  let asking = false;
  let stopped = false;
  const stop = (): void => {
    stopped = true;
    if (asking) return;
    try {
      Promise.resolve(iterator?.return?.()).catch(() => undefined);
    } catch {
      // The same as where it rejects.
    }
  };
  const ask = async (): Promise<void> => {
    try {
      iterator ??= iteratorOf(input);
      asking = true;
      let step;
      try {
        step = iterator.next();
      } finally {
        asking = false;
        // Ended from within.
        if (stopped) stop();
      }
      const { done, value } = await step;
      if (done === true) channel.close();
      // An iterable that is not asynchronous may hold promises.
      else channel.push(await value);
    } catch (error) {
      channel.fail(error);
    }
  };
  const channel = new Channel<T>({ wanted: () => void ask(), stop });
  return channel;
}

/**
 * What is made of an input by reading it to its end, such that `return` ends the input at once: the makers of iterators
 * (async generators) would wait for the value that they await.
 */
export function madeOf<Input, Output>(
  input: AsyncIterable<Input> | Iterable<Input>,
  make: (input: AsyncIterable<Input>) => AsyncGenerator<Output, void, undefined>,
): AsyncIterator<Output, void, undefined> {
  const reader = cancellable(input);
  const made = make(reader);
  return {
    next: () => made.next(),
    return: () => {
      reader.abort();
      return made.return();
    },
  };
}

function iteratorOf<T>(input: AsyncIterable<T> | Iterable<T>): AsyncIterator<T, unknown> | Iterator<T, unknown> {
  return (input as Partial<AsyncIterable<T>>)[Symbol.asyncIterator]?.() ?? (input as Iterable<T>)[Symbol.iterator]();
}
