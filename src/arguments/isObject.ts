/**
 * Tells whether a value is an object that has members by name, as JSON knows them; an array is none, nor is a function.
 */
export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The members of what may be anything, to take it apart and see which are there: what is no object has none. */
export function membersOf(value: unknown): Readonly<Record<string, unknown>> {
  return isObject(value) ? value : {};
}

/**
 * Tells whether a value can be iterated, asynchronously or not. Text is taken for none: what its characters are was not
 * meant.
 */
export function isIterable(value: unknown): value is Iterable<unknown> | AsyncIterable<unknown> {
  if (typeof value !== 'object' || value === null) return false;
  const { [Symbol.asyncIterator]: inTime, [Symbol.iterator]: atOnce } = value as Partial<
    AsyncIterable<unknown> & Iterable<unknown>
  >;
  return typeof inTime === 'function' || typeof atOnce === 'function';
}
