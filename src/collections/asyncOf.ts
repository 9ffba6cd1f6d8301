/** Values that are there, for whoever takes such as are to come. */
export async function* asyncOf<T>(values: AsyncIterable<T> | Iterable<T>): AsyncGenerator<T, void, undefined> {
  for await (const value of values) yield value;
}
