const CHUNK = 2 ** 15;

/**
 * Ids that were seen. Whole numbers cost a bit each where they are dense (line numbers), so a million of them are nothing;
 * strings cost what a Set of strings costs.
 */
export class IdSet {
  private readonly chunks = new Map<number, Uint8Array>();
  private readonly others = new Set<string | number>();

  /** Adds the id; false if it was there already. `1` and `"1"` are different ids. */
  add(id: string | number): boolean {
    if (typeof id !== 'number' || !Number.isSafeInteger(id) || id < 0) {
      const size = this.others.size;
      return this.others.add(id).size > size;
    }
    const key = Math.floor(id / CHUNK);
    let chunk = this.chunks.get(key);
    if (!chunk) this.chunks.set(key, (chunk = new Uint8Array(CHUNK / 8)));
    const bit = id % CHUNK;
    const mask = 1 << (bit & 7);
    const byte = chunk[bit >> 3] ?? 0;
    chunk[bit >> 3] = byte | mask;
    return (byte & mask) === 0;
  }
}
