/** Values that are looked at: what callers hand over may lead to anything. */
const MOST_VALUES = 10_000;
const VALUE_BYTES = 16;

/**
 * About how many bytes a value takes that a row carries: its strings, keys and buffers, and so much a value. Never
 * throws.
 */
export function carriedBytes(carried: unknown): number {
  const seen = new Set<unknown>();
  const left = [carried];
  let bytes = 0;
  for (let looked = 0; left.length > 0 && looked < MOST_VALUES; looked++) {
    const value = left.pop();
    bytes += VALUE_BYTES;
    if (typeof value === 'string') bytes += 2 * value.length;
    else if (ArrayBuffer.isView(value)) bytes += value.byteLength;
    else if (typeof value === 'object' && value !== null && !seen.has(value)) {
      seen.add(value);
      bytes += 2 * addMembers(value, left, MOST_VALUES - looked);
    }
  }
  return bytes;
}

/** @returns the length of the keys */
function addMembers(value: object, to: unknown[], most: number): number {
  let length = 0;
  try {
    for (const [key, member] of Object.entries(value).slice(0, most)) {
      if (!Array.isArray(value)) length += key.length;
      to.push(member);
    }
  } catch {
    // A getter that throws: what it would have given is not held.
  }
  return length;
}
