/** Memory of payloads that nobody looks at any more, for payloads to come: else each would be garbage to collect. */
export class PayloadMemory {
  /** The one that was given back last is last. */
  private readonly free: ArrayBuffer[] = [];

  /** @param most that are kept */
  constructor(private readonly most: number) {}

  /** As many bytes, of memory that has as many, and no more than twice. */
  take(bytes: number): Buffer {
    const at = this.free.findLastIndex(({ byteLength }) => byteLength >= bytes && byteLength <= 2 * bytes);
    const [memory] = at < 0 ? [] : this.free.splice(at, 1);
    return memory === undefined ? Buffer.allocUnsafeSlow(bytes) : Buffer.from(memory, 0, bytes);
  }

  /** @param memory of a payload that was taken here, all of it: the next one is written over it */
  giveBack(memory: ArrayBuffer): void {
    this.free.push(memory);
    if (this.free.length > this.most) this.free.shift();
  }
}
