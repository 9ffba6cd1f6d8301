import { PeerError } from '../../../errors/engineErrors.js';
import { roundedToBfloat16 } from '../../grid/HiddenStates.js';
import { found } from '../../../arguments/found.js';

const FIRST_BYTES = 256;
/** Most bytes of a whole number that JavaScript tells from its neighbours, seven bits a byte. */
const MOST_WHOLE_BYTES = 8;

/**
 * Makes the payload of a frame, piece by piece. Numbers of hidden states are not copied: they are pieces of their own.
 */
export class ByteWriter {
  private readonly pieces: Uint8Array[] = [];
  private buffer = Buffer.allocUnsafe(FIRST_BYTES);
  /** Where `buffer` has been handed over as pieces up to, and written up to. */
  private handed = 0;
  private at = 0;
  private before = 0;

  /** @throws PeerError for a number that no peer would take */
  whole(value: number): void {
    if (!Number.isSafeInteger(value) || value < 0)
      throw new PeerError(`message: found ${found(value)}, expected a whole number of at least 0`);
    this.reserve(MOST_WHOLE_BYTES);
    let rest = value;
    while (rest >= 128) {
      this.buffer[this.at++] = (rest % 128) + 128;
      rest = Math.floor(rest / 128);
    }
    this.buffer[this.at++] = rest;
  }

  number(value: number): void {
    this.reserve(8);
    this.at = this.buffer.writeDoubleLE(value, this.at);
  }

  text(value: string): void {
    const bytes = Buffer.from(value, 'utf8');
    this.whole(bytes.length);
    this.reserve(bytes.length);
    this.at += bytes.copy(this.buffer, this.at);
  }

  /** Aligned, so that the receiver can look at them where they are. (Every processor that runs us is little-endian.) */
  floats(values: Float32Array): void {
    this.whole(values.length);
    this.reserve(4);
    while ((this.before + this.at) % 4 !== 0) this.buffer[this.at++] = 0;
    this.piece(new Uint8Array(values.buffer, values.byteOffset, values.byteLength));
  }

  /** Numbers of two bytes, which need no place of their own. */
  bfloats(values: Float32Array): void {
    this.whole(values.length);
    this.piece(roundedToBfloat16(values));
  }

  octets(values: Uint8Array): void {
    this.whole(values.length);
    this.piece(values);
  }

  /** Returns the bytes that were written, in order. */
  finish(): readonly Uint8Array[] {
    this.hand();
    return this.pieces;
  }

  private piece(bytes: Uint8Array): void {
    this.hand();
    this.pieces.push(bytes);
    this.before += bytes.length;
  }

  private hand(): void {
    if (this.at > this.handed) this.pieces.push(this.buffer.subarray(this.handed, this.at));
    this.handed = this.at;
  }

  private reserve(bytes: number): void {
    if (this.at + bytes <= this.buffer.length) return;
    this.hand();
    this.before += this.at;
    this.buffer = Buffer.allocUnsafe(Math.max(bytes, 2 * this.buffer.length));
    this.at = this.handed = 0;
  }
}
