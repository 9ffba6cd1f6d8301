import { WEIGHT_TYPES, type WeightType } from '../../../src/model/weightTypes.js';
import type { TensorImage } from '../images/ModelImage.js';

export function isWeightType(type: TensorImage['type']): type is WeightType {
  return typeof type === 'string' && Object.hasOwn(WEIGHT_TYPES, type);
}

/** Bytes that a shape takes in a type; a fraction where its rows are no whole blocks. */
export function bytesOf(type: WeightType, shape: readonly number[]): number {
  return (shape.reduce((product, size) => product * size, 1) / WEIGHT_TYPES[type].elements) * WEIGHT_TYPES[type].bytes;
}

/** More than any case needs; a shape that was mutated before may ask for terabytes. */
const MOST_BYTES = 2 ** 26;

/** So many bytes, within reason: those that there are, again and again. */
export function tiled(data: Uint8Array, wanted: number): Uint8Array {
  const length = Math.min(wanted, MOST_BYTES);
  const result = new Uint8Array(length);
  for (let at = 0; at < length && data.length > 0; at += data.length) result.set(data.subarray(0, length - at), at);
  return result;
}
