/** Records that wait to be written, in order, each under its key. They can be looked up meanwhile. */
export class WaitingRecords {
  readonly #records = new Map<string, Buffer>();
  #bytes = 0;

  /** @param mostBytes that may wait; a single record may be longer */
  constructor(private readonly mostBytes: number) {}

  get bytes(): number {
    return this.#bytes;
  }

  get(key: Buffer): Buffer | undefined {
    return this.#records.get(nameOf(key));
  }

  /** False if there is no room for it. One whose key is there already is not added again. */
  add(key: Buffer, record: Buffer): boolean {
    const name = nameOf(key);
    if (this.#records.has(name)) return true;
    if (this.#bytes > 0 && this.#bytes + record.length > this.mostBytes) return false;
    this.#records.set(name, record);
    this.#bytes += record.length;
    return true;
  }

  /** The first records, as many as take no more than so many bytes together. They go on waiting. */
  first(mostBytes: number): readonly Buffer[] {
    const batch: Buffer[] = [];
    let bytes = 0;
    for (const record of this.#records.values()) {
      bytes += record.length;
      if (bytes > mostBytes) break;
      batch.push(record);
    }
    return batch;
  }

  /** Lets go of the first `count` records. */
  drop(count: number): void {
    let left = count;
    for (const [name, record] of this.#records) {
      if (left === 0) break;
      left -= 1;
      this.#records.delete(name);
      this.#bytes -= record.length;
    }
  }

  clear(): void {
    this.#records.clear();
    this.#bytes = 0;
  }
}

function nameOf(key: Buffer): string {
  return key.toString('latin1');
}
