/** Whether it can be iterated, asynchronously or not. Text is taken for none: what its characters are was not meant. */
export function isIterable(value: unknown): value is Iterable<unknown> | AsyncIterable<unknown> {
  if (typeof value !== 'object' || value === null) return false;
  const { [Symbol.asyncIterator]: inTime, [Symbol.iterator]: atOnce } = value as Partial<
    AsyncIterable<unknown> & Iterable<unknown>
  >;
  return typeof inTime === 'function' || typeof atOnce === 'function';
}
