import type { PageBytes } from './PageBytes.js';

/**
 * Small whole numbers as pages hold them, levels and places in a dictionary: runs of one number, and numbers packed
 * into
 * bits. Goes through them one by one, so that a run of millions takes no memory.
 */
export class RunCursor {
  #offset: number;
  readonly #start: number;
  readonly #end: number;
  /** Numbers that are left of the run. */
  #run = 0;
  /** The number that the run repeats; undefined for one of packed numbers. */
  #repeated: number | undefined;
  /** Where in the page, in bits, the next packed number begins. */
  #bit = 0;

  /**
   * @param start of the runs in the page @param length of them in bytes
   * @param width of a number in bits @param left numbers to come
   */
  constructor(
    private readonly page: PageBytes,
    start: number,
    length: number,
    private readonly width: number,
    private left: number,
  ) {
    if (width > 31) throw new Error(`numbers have ${width} bits, expected at most 31`);
    if (length < 0 || start + length > page.bytes.length)
      throw new Error(`runs of ${length} bytes in ${page.bytes.length - start}`);
    [this.#offset, this.#start, this.#end] = [start, start, start + length];
  }

  next(): number {
    if (this.width === 0) return 0;
    while (this.#run === 0) this.#begin();
    this.#run -= 1;
    this.left -= 1;
    return this.#repeated ?? this.#packed();
  }

  #begin(): void {
    const header = this.#varint();
    const packed = header % 2 === 1;
    const run = packed ? (header >>> 1) * 8 : header >>> 1;
    if (!packed && run > this.left) throw new Error(`a run of ${run} values, expected at most ${this.left}`);
    // What is packed is filled up to eight.
    this.#run = Math.min(run, this.left);
    const bytes = packed ? Math.ceil((this.#run * this.width) / 8) : (this.width + 7) >> 3;
    if (this.#offset + bytes > this.#end)
      throw new Error(`runs of ${this.#end - this.#start} bytes end before their ${this.left} values`);
    this.#bit = 8 * this.#offset;
    this.#repeated = undefined;
    if (!packed) {
      let value = 0;
      for (let at = 0; at < bytes; at++) value += (this.page.bytes[this.#offset + at] ?? 0) * 2 ** (8 * at);
      this.#repeated = value;
    }
    this.#offset += packed ? (header >>> 1) * this.width : bytes;
  }

  #packed(): number {
    const { bytes } = this.page;
    const [from, shift] = [Math.floor(this.#bit / 8), this.#bit % 8];
    this.#bit += this.width;
    let value = (bytes[from] ?? 0) >>> shift;
    for (let at = 1, bits = 8 - shift; bits < this.width; at++, bits += 8) value += (bytes[from + at] ?? 0) * 2 ** bits;
    return value % 2 ** this.width;
  }

  #varint(): number {
    let value = 0;
    for (let shift = 0; shift < 32 && this.#offset < this.#end; shift += 7) {
      const byte = this.page.bytes[this.#offset++] ?? 0;
      value += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) {
        if (value >= 2 ** 31) break;
        return value;
      }
    }
    if (this.#offset >= this.#end && this.left > 0)
      throw new Error(`runs of ${this.#end - this.#start} bytes end before their ${this.left} values`);
    throw new Error('a number is longer than it may be');
  }
}
