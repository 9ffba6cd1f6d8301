import { PeerError } from '../../../errors/engineErrors.js';
import { widenedFromBfloat16 } from '../../grid/HiddenStates.js';

/** The whole numbers that JavaScript tells from their neighbours end in the eighth byte of seven bits. */
const MOST_WHOLE_BYTES = 8;

/** Reads the payload of a frame, which may say anything: nothing is allocated that it does not have the bytes for. */
export class ByteReader {
  private at = 0;

  constructor(private readonly bytes: Buffer) {}

  get left(): number {
    return this.bytes.length - this.at;
  }

  byte(name: string): number {
    const byte = this.bytes[this.at++];
    if (byte === undefined) throw this.cut(name, 1);
    return byte;
  }

  whole(name: string): number {
    let value = 0;
    for (let index = 0, scale = 1; index < MOST_WHOLE_BYTES; index++, scale *= 128) {
      const byte = this.byte(name);
      value += (byte % 128) * scale;
      if (byte < 128) {
        if (Number.isSafeInteger(value)) return value;
        break;
      }
    }
    throw new PeerError(`${name}: found a number beyond ${Number.MAX_SAFE_INTEGER}, expected a smaller one`);
  }

  number(name: string): number {
    if (this.left < 8) throw this.cut(name, 8);
    const value = this.bytes.readDoubleLE(this.at);
    this.at += 8;
    return value;
  }

  text(name: string, mostBytes: number): string {
    const length = this.whole(name);
    if (length > mostBytes)
      throw new PeerError(`${name}: found a text of ${length} bytes, expected at most ${mostBytes}`);
    if (length > this.left) throw this.cut(name, length);
    const value = this.bytes.toString('utf8', this.at, this.at + length);
    this.at += length;
    return value;
  }

  /** How many of something follow, each of which takes a byte at least. */
  count(name: string): number {
    const count = this.whole(name);
    if (count > this.left) throw this.cut(name, count);
    return count;
  }

  /** A view of the payload, whose own memory it is, unless it came at an odd place. */
  floats(name: string): Float32Array {
    const length = this.whole(name);
    while (this.at % 4 !== 0) this.byte(name);
    if (length > this.left / 4) throw this.cut(name, 4 * length);
    const { buffer, byteOffset } = this.bytes;
    const start = byteOffset + this.at;
    this.at += 4 * length;
    return start % 4 === 0
      ? new Float32Array(buffer, start, length)
      : new Float32Array(buffer.slice(start, start + 4 * length));
  }

  /** A view of the payload. */
  octets(name: string): Uint8Array {
    const length = this.count(name);
    this.at += length;
    return this.bytes.subarray(this.at - length, this.at);
  }

  /** In memory of their own. */
  bfloats(name: string): Float32Array {
    const length = this.whole(name);
    if (length > this.left / 2) throw this.cut(name, 2 * length);
    const bytes = this.bytes.subarray(this.at, this.at + 2 * length);
    this.at += 2 * length;
    return widenedFromBfloat16(bytes);
  }

  /** @throws PeerError unless all has been read */
  end(name: string): void {
    if (this.left > 0) throw new PeerError(`${name}: found ${this.left} bytes after its end, expected none`);
  }

  private cut(name: string, bytes: number): PeerError {
    return new PeerError(`${name}: found ${Math.max(0, this.left)} bytes before the frame's end, expected ${bytes}`);
  }
}
