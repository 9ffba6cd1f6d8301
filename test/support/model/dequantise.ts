import { WEIGHT_TYPES, type WeightType } from '../../../src/model/weightTypes.js';

function half(bits: number): number {
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  const magnitude =
    exponent === 0
      ? fraction * 2 ** -24
      : exponent === 31
        ? fraction
          ? NaN
          : Infinity
        : (1 + fraction / 1024) * 2 ** (exponent - 15);
  return bits & 0x8000 ? -magnitude : magnitude;
}

type BlockReader = (view: DataView, at: number, values: Float64Array, to: number) => void;

/**
 * Blocks of 32 with low nibbles first, then high ones; `bits5` adds a fifth bit, `minimum` an offset instead of a fixed
 * centre.
 */
function nibbles(bits5: boolean, minimum: boolean): BlockReader {
  return (view, at, values, to) => {
    const d = half(view.getUint16(at, true));
    const least = minimum ? half(view.getUint16(at + 2, true)) : d * (bits5 ? -16 : -8);
    const high = at + (minimum ? 4 : 2);
    const low = high + (bits5 ? 4 : 0);
    for (let i = 0; i < 32; i++) {
      const byte = view.getUint8(low + (i % 16));
      const fifth = bits5 ? ((view.getUint32(high, true) >>> i) & 1) << 4 : 0;
      values[to + i] = d * ((i < 16 ? byte & 15 : byte >> 4) | fifth) + least;
    }
  };
}

/** 6-bit scale and minimum of sub-block `j` of Q4_K and Q5_K, from their 12 bytes at `at`. */
function scaleAndMinimum(view: DataView, at: number, j: number): [number, number] {
  const byte = (i: number): number => view.getUint8(at + i);
  if (j < 4) return [byte(j) & 63, byte(j + 4) & 63];
  return [(byte(j + 4) & 15) | ((byte(j - 4) >> 6) << 4), (byte(j + 4) >> 4) | ((byte(j) >> 6) << 4)];
}

/** Q4_K and Q5_K: sub-blocks of 32, two of them in the nibbles of the same bytes. */
function scaledNibbles(bits5: boolean): BlockReader {
  return (view, at, values, to) => {
    const [d, dmin] = [half(view.getUint16(at, true)), half(view.getUint16(at + 2, true))];
    for (let i = 0; i < 256; i++) {
      const sub = i >> 5;
      const [scale, minimum] = scaleAndMinimum(view, at + 4, sub);
      const byte = view.getUint8(at + (bits5 ? 48 : 16) + 32 * (i >> 6) + (i & 31));
      const fifth = bits5 ? ((view.getUint8(at + 16 + (i & 31)) >> sub) & 1) << 4 : 0;
      values[to + i] = d * scale * ((sub % 2 === 0 ? byte & 15 : byte >> 4) | fifth) - dmin * minimum;
    }
  };
}

/** Two low bits of element `i` of Q2_K and Q3_K: four elements, 32 apart, share a byte. */
const crumb = (view: DataView, at: number, i: number): number =>
  (view.getUint8(at + 32 * (i >> 7) + (i & 31)) >> (2 * ((i >> 5) & 3))) & 3;

const q2: BlockReader = (view, at, values, to) => {
  const [d, dmin] = [half(view.getUint16(at + 80, true)), half(view.getUint16(at + 82, true))];
  for (let i = 0; i < 256; i++) {
    const scales = view.getUint8(at + (i >> 4));
    values[to + i] = d * (scales & 15) * crumb(view, at + 16, i) - dmin * (scales >> 4);
  }
};

const q3: BlockReader = (view, at, values, to) => {
  const d = half(view.getUint16(at + 108, true));
  for (let i = 0; i < 256; i++) {
    const sub = i >> 4;
    const low = (view.getUint8(at + 96 + (sub % 8)) >> (sub < 8 ? 0 : 4)) & 15;
    const high = (view.getUint8(at + 104 + (sub % 4)) >> (2 * (sub >> 2))) & 3;
    const third = (view.getUint8(at + (i & 31)) >> (i >> 5)) & 1;
    values[to + i] = d * ((low | (high << 4)) - 32) * (crumb(view, at + 32, i) - (third === 1 ? 0 : 4));
  }
};

const q6: BlockReader = (view, at, values, to) => {
  const d = half(view.getUint16(at + 208, true));
  for (let i = 0; i < 256; i++) {
    const [half128, quarter, l] = [i >> 7, (i >> 5) & 3, i & 31];
    const low = (view.getUint8(at + 64 * half128 + 32 * (quarter & 1) + l) >> (quarter < 2 ? 0 : 4)) & 15;
    const high = (view.getUint8(at + 128 + 32 * half128 + l) >> (2 * quarter)) & 3;
    values[to + i] = d * view.getInt8(at + 192 + (i >> 4)) * ((low | (high << 4)) - 32);
  }
};

/** What the four bits of IQ4 types stand for (kvalues_iq4nl in ggml-common.h). */
const IQ4 = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/** What the four bits of MXFP4 stand for, doubled (kvalues_mxfp4 in ggml-common.h). */
const E2M1 = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

const READERS: Record<WeightType, BlockReader> = {
  F32: (view, at, values, to) => void (values[to] = view.getFloat32(at, true)),
  F16: (view, at, values, to) => void (values[to] = half(view.getUint16(at, true))),
  BF16: (view, at, values, to) => {
    const widened = new DataView(new ArrayBuffer(4));
    widened.setUint32(0, view.getUint16(at, true) << 16);
    values[to] = widened.getFloat32(0);
  },
  Q8_0: (view, at, values, to) => {
    const d = half(view.getUint16(at, true));
    for (let i = 0; i < 32; i++) values[to + i] = d * view.getInt8(at + 2 + i);
  },
  Q4_0: nibbles(false, false),
  Q4_1: nibbles(false, true),
  Q5_0: nibbles(true, false),
  Q5_1: nibbles(true, true),
  IQ4_NL: (view, at, values, to) => {
    const d = half(view.getUint16(at, true));
    for (let i = 0; i < 32; i++) {
      const byte = view.getUint8(at + 2 + (i % 16));
      values[to + i] = d * (IQ4[i < 16 ? byte & 15 : byte >> 4] ?? NaN);
    }
  },
  IQ4_XS: (view, at, values, to) => {
    const d = half(view.getUint16(at, true));
    for (let i = 0; i < 256; i++) {
      const sub = i >> 5;
      const low = (view.getUint8(at + 4 + (sub >> 1)) >> (sub % 2 === 0 ? 0 : 4)) & 15;
      const high = (view.getUint16(at + 2, true) >> (2 * sub)) & 3;
      const byte = view.getUint8(at + 8 + 16 * sub + (i % 16));
      values[to + i] = d * ((low | (high << 4)) - 32) * (IQ4[i % 32 < 16 ? byte & 15 : byte >> 4] ?? NaN);
    }
  },
  MXFP4: (view, at, values, to) => {
    const scale = 2 ** (view.getUint8(at) - 128);
    for (let i = 0; i < 32; i++) {
      const byte = view.getUint8(at + 1 + (i % 16));
      values[to + i] = scale * (E2M1[i < 16 ? byte & 15 : byte >> 4] ?? NaN);
    }
  },
  Q2_K: q2,
  Q3_K: q3,
  Q4_K: scaledNibbles(false),
  Q5_K: scaledNibbles(true),
  Q6_K: q6,
};

/** Rows as they stand in a file, as numbers. Written for clearness alone, and apart from the addon's own code. */
export function dequantise(type: WeightType, bytes: Uint8Array): Float64Array {
  const read = READERS[type];
  const block = WEIGHT_TYPES[type];
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const blocks = bytes.byteLength / block.bytes;
  const values = new Float64Array(blocks * block.elements);
  for (let b = 0; b < blocks; b++) read(view, b * block.bytes, values, b * block.elements);
  return values;
}
