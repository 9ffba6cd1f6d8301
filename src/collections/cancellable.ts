import { Channel } from './Channel.js';

/**
 * An input that whoever reads it can leave at once, with `return` or `abort`, also while a value of it is awaited. The
 * input is told so, once, and what it answers is of no interest any more. Streams of Node and of the web are closed
 * then, as `for await` closes them: their iterators would wait for the value that they await, which may never come.
 */
export function cancellable<T>(input: AsyncIterable<T> | Iterable<T>): Channel<T> {
  let iterator: AsyncIterator<T, unknown> | Iterator<T, unknown> | undefined;
  /** The input is being asked: a generator cannot be ended just then. */
  let asking = false;
  let awaiting = false;
  let stopped = false;
  const stop = (): void => {
    stopped = true;
    if (asking) return;
    try {
      Promise.resolve(iterator?.return?.()).catch(() => undefined);
      if (awaiting) (input as Partial<Destroyable>).destroy?.();
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
        awaiting = true;
      } finally {
        asking = false;
        // Ended from within.
        if (stopped) stop();
      }
      const { done, value } = await step;
      awaiting = false;
      if (done === true) channel.close();
      // An iterable that is not asynchronous may hold promises.
      else channel.push(await value);
    } catch (error) {
      awaiting = false;
      channel.fail(error);
    }
  };
  const channel = new Channel<T>({ wanted: () => void ask(), stop });
  return channel;
}

/**
 * Makes something of an input by reading it to its end, such that `return` ends the input at once: the makers of
 * iterators (async generators) would wait for the value that they await.
 * @param make makes it; the signal fires when it is ended before its time
 */
export function madeOf<Input, Output>(
  input: AsyncIterable<Input> | Iterable<Input>,
  make: (input: AsyncIterable<Input>, ended: AbortSignal) => AsyncGenerator<Output, void, undefined>,
): AsyncIterator<Output, void, undefined> {
  const reader = cancellable(input);
  const ended = new AbortController();
  const made = make(reader, ended.signal);
  return {
    next: () => made.next(),
    return: () => {
      ended.abort();
      reader.abort();
      return made.return();
    },
  };
}

/** A stream of Node's. */
interface Destroyable {
  destroy(): unknown;
}

function iteratorOf<T>(input: AsyncIterable<T> | Iterable<T>): AsyncIterator<T, unknown> | Iterator<T, unknown> {
  if (input instanceof ReadableStream) return readerOf<T>(input);
  return (input as Partial<AsyncIterable<T>>)[Symbol.asyncIterator]?.() ?? (input as Iterable<T>)[Symbol.iterator]();
}

/** A stream of the web, which is cancelled at once, also while it is read. */
function readerOf<T>(stream: ReadableStream): AsyncIterator<T, unknown> {
  const reader = stream.getReader() as ReadableStreamDefaultReader<T>;
  return {
    next: async () => {
      const step = await reader.read();
      if (!step.done) return step;
      reader.releaseLock();
      return { done: true, value: undefined };
    },
    return: async () => {
      await reader.cancel();
      reader.releaseLock();
      return { done: true, value: undefined };
    },
  };
}
