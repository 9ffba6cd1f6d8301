/**
 * An iterator as a generator that whoever reads it can leave at once: an async generator's own `return` waits for the
 * value that is awaited.
 * @param end ends the iterator, so that what is awaited comes, or need not
 */
export function endedBy<T>(
  iterator: Pick<AsyncIterator<T, void, undefined>, 'next'>,
  end: () => Promise<unknown>,
): AsyncGenerator<T, void, undefined> {
  const generator: AsyncGenerator<T, void, undefined> = {
    next: () => iterator.next(),
    return: async () => {
      await end();
      return { done: true, value: undefined };
    },
    throw: async (error) => {
      await end();
      throw error;
    },
    [Symbol.asyncIterator]: () => generator,
    [Symbol.asyncDispose]: async () => {
      await end();
    },
  };
  return generator;
}
