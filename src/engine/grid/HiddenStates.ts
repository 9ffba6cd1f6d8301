/**
 * How hidden states go from one engine to the next. `bfloat16` takes half the bytes, and rounds each number to the
 * nearest of 8 significant bits (ties to even): numbers then depend on between which layers they crossed a link, and
 * on nothing else. It has the range of float32, which hidden states need (those of Gemma 3 go beyond float16's 65,504),
 * and is what most models were trained to hand from layer to layer.
 */
export type HiddenStates = 'float32' | 'bfloat16';

export const HIDDEN_STATES: readonly HiddenStates[] = ['float32', 'bfloat16'];

/** Bytes of one number. */
export const HIDDEN_STATE_BYTES: Readonly<Record<HiddenStates, number>> = { float32: 4, bfloat16: 2 };

const INFINITY_BITS = 0x7f80_0000;
/** A NaN stays one whatever its lower half was. */
const QUIET = 0x40;

/** Little-endian bfloat16. What is beyond its largest number becomes infinite, what is not a number stays so. Pure. */
export function roundedToBfloat16(values: Float32Array): Uint8Array {
  const bits = new Uint32Array(values.buffer, values.byteOffset, values.length);
  const halves = new Uint16Array(values.length);
  for (let at = 0; at < bits.length; at++) {
    const value = bits[at] ?? 0;
    const upper = value >>> 16;
    halves[at] = (value & 0x7fff_ffff) > INFINITY_BITS ? upper | QUIET : (value + 0x7fff + (upper & 1)) >>> 16;
  }
  return new Uint8Array(halves.buffer);
}

/** Pure. @param bytes little-endian bfloat16 */
export function widenedFromBfloat16(bytes: Uint8Array): Float32Array {
  const bits = new Uint32Array(bytes.length >> 1);
  for (let at = 0; at < bits.length; at++) bits[at] = ((bytes[2 * at] ?? 0) | ((bytes[2 * at + 1] ?? 0) << 8)) << 16;
  return new Float32Array(bits.buffer);
}
