/** What a number and what a list or an object takes, about; the rest is in strings. */
const NUMBER_BYTES = 8;
const CONTAINER_BYTES = 40;

/** A copy of an answer, which is plain data of our own making: whoever gets it may do with it as they like. */
export function copyOf<T>(data: T): T;
export function copyOf(data: unknown): unknown {
  if (typeof data !== 'object' || data === null) return data;
  // Not by assigning: a label may be called __proto__.
  return Array.isArray(data)
    ? data.map((each) => copyOf<unknown>(each))
    : Object.fromEntries(Object.entries(data).map(([name, each]) => [name, copyOf<unknown>(each)]));
}

/** What it takes in memory, about. */
export function heapBytes(data: unknown): number {
  if (typeof data === 'string') return 2 * data.length;
  if (typeof data !== 'object' || data === null) return NUMBER_BYTES;
  return Object.values(data).reduce<number>((sum, each) => sum + heapBytes(each), CONTAINER_BYTES);
}
