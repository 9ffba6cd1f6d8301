import type { TensorInfo } from '../ModelSource.js';

/**
 * Bits of an element, of every type that the safetensors format has (its repository, safetensors/src/tensor.rs,
 * `Dtype`).
 */
const BITS: ReadonlyMap<string, number> = new Map([
  ['BOOL', 8],
  ['F4', 4],
  ['F6_E2M3', 6],
  ['F6_E3M2', 6],
  ['U8', 8],
  ['I8', 8],
  ['F8_E5M2', 8],
  ['F8_E4M3', 8],
  ['F8_E5M2FNUZ', 8],
  ['F8_E4M3FNUZ', 8],
  ['F8_E8M0', 8],
  ['I16', 16],
  ['U16', 16],
  ['F16', 16],
  ['BF16', 16],
  ['I32', 32],
  ['U32', 32],
  ['F32', 32],
  ['C64', 64],
  ['F64', 64],
  ['I64', 64],
  ['U64', 64],
]);

const WEIGHT_DTYPES: ReadonlyMap<string, TensorInfo['type']> = new Map([
  ['F32', 'F32'],
  ['F16', 'F16'],
  ['BF16', 'BF16'],
  ['F8_E4M3', 'F8_E4M3'],
]);

export const SUPPORTED_DTYPES: string = [...WEIGHT_DTYPES.keys()].join(', ');

export function dtypeBits(dtype: string): number | undefined {
  return BITS.get(dtype);
}

export function weightTypeOfDtype(dtype: string): TensorInfo['type'] | undefined {
  return WEIGHT_DTYPES.get(dtype);
}

/**
 * Tells whether a tensor of an unsupported type can be left out: no weight but a buffer that old checkpoints carry
 * along (attention masks of booleans or bytes, position ids, rotary frequencies of float64). Leaving out a weight would
 * change the model silently, so anything named as one and anything else of floating point counts as a weight.
 */
export function isBuffer(name: string, dtype: string): boolean {
  if (/(^|[._])q?weight$/.test(name)) return false;
  return /^(BOOL|[UI]\d+)$/.test(dtype) || /(^|\.)inv_freq$/.test(name);
}
