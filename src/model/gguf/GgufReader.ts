import { isUtf8 } from 'node:buffer';
import { ModelFileError } from '../../errors/ModelFileError.js';
import { HeaderBudget } from '../files/headerChecks.js';
import type { ModelFile } from '../files/ModelFile.js';

const CHUNK_BYTES = 2 ** 18;

/**
 * Reads a GGUF header from front to back through a small buffer. `need` is the only thing that waits; the reads after
 * it are synchronous, so that a vocabulary of 260,000 strings costs no promise a string.
 *
 * This is our own and not @huggingface/gguf 0.4.6, because that library returns all 272 tensors for a model that was
 * cut after 1,000 bytes: it does not check that what it read was there, nor tensors against the file, each other or
 * their types' blocks.
 */
export class GgufReader {
  readonly budget: HeaderBudget;
  #buffer = Buffer.alloc(0);
  /** Offset in the file of the buffer's first byte. */
  #start = 0;
  #at = 0;

  constructor(readonly file: ModelFile) {
    this.budget = new HeaderBudget(file.path, file.bytes);
  }

  /** Offset in the file of the next byte to be read. */
  get position(): number {
    return this.#start + this.#at;
  }

  /** Bytes from here to the end of the file. */
  get remaining(): number {
    return this.file.bytes - this.position;
  }

  /** Bytes that can be read without waiting. */
  get buffered(): number {
    return this.#buffer.length - this.#at;
  }

  /** Makes `bytes` bytes readable. @throws ModelFileError if the file ends before them */
  async need(bytes: number, field: string): Promise<void> {
    if (this.buffered >= bytes) return;
    if (this.remaining < bytes) {
      this.fail(
        field,
        `the end of the file, ${this.remaining} bytes after offset ${this.position}`,
        `${bytes} more bytes: the file is truncated or corrupt`,
      );
    }
    const start = this.position;
    const next = Buffer.allocUnsafe(Math.min(Math.max(CHUNK_BYTES, bytes), this.remaining));
    const kept = this.#buffer.copy(next, 0, this.#at);
    await this.file.fill(next.subarray(kept), start + kept);
    this.#buffer = next;
    this.#start = start;
    this.#at = 0;
  }

  uint8(): number {
    return this.#buffer.readUInt8(this.#advance(1));
  }
  int8(): number {
    return this.#buffer.readInt8(this.#advance(1));
  }
  uint16(): number {
    return this.#buffer.readUInt16LE(this.#advance(2));
  }
  int16(): number {
    return this.#buffer.readInt16LE(this.#advance(2));
  }
  uint32(): number {
    return this.#buffer.readUInt32LE(this.#advance(4));
  }
  int32(): number {
    return this.#buffer.readInt32LE(this.#advance(4));
  }
  float32(): number {
    return this.#buffer.readFloatLE(this.#advance(4));
  }
  float64(): number {
    return this.#buffer.readDoubleLE(this.#advance(8));
  }

  /** A number where that is exact, else a bigint. */
  uint64(): number | bigint {
    const low = this.uint32();
    const high = this.uint32();
    return high < 2 ** 21 ? high * 2 ** 32 + low : (BigInt(high) << 32n) | BigInt(low);
  }
  int64(): number | bigint {
    const value = this.#buffer.readBigInt64LE(this.#advance(8));
    return value >= Number.MIN_SAFE_INTEGER && value <= Number.MAX_SAFE_INTEGER ? Number(value) : value;
  }

  /** Text of the next `bytes` bytes. Broken UTF-8 becomes U+FFFD: descriptions cut in mid-character exist. */
  text(bytes: number): string {
    const start = this.#advance(bytes);
    return this.#buffer.toString('utf8', start, start + bytes);
  }

  /** Tells whether the next `bytes` bytes are UTF-8; reads nothing. */
  isText(bytes: number): boolean {
    return isUtf8(this.#buffer.subarray(this.#at, this.#at + bytes));
  }

  /** Fills `target` from the buffer and then straight from the file. The caller has checked that so much remains. */
  async fill(target: Uint8Array): Promise<void> {
    const start = this.position;
    const copied = this.#buffer.copy(target, 0, this.#at);
    this.#at += copied;
    if (copied === target.byteLength) return;
    await this.file.fill(target.subarray(copied), start + copied);
    this.#buffer = Buffer.alloc(0);
    this.#start = start + target.byteLength;
    this.#at = 0;
  }

  fail(field: string, found: string, expected: string): never {
    throw new ModelFileError(this.file.path, field, found, expected);
  }

  #advance(bytes: number): number {
    const at = this.#at;
    this.#at += bytes;
    return at;
  }
}
