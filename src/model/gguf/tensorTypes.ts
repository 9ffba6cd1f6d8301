import { WEIGHT_TYPES } from '../TensorBinding.js';
import type { WeightType } from '../TensorBinding.js';

/** Types by GGML's number that Spillway reads. */
const SUPPORTED: ReadonlyMap<number, WeightType> = new Map(
  (Object.keys(WEIGHT_TYPES) as WeightType[]).map((type) => [WEIGHT_TYPES[type], type]),
);

/** Names of the types that GGML has or had and Spillway does not read, for error messages. */
const OTHERS: ReadonlyMap<number, string> = new Map([
  [4, 'Q4_2'],
  [5, 'Q4_3'],
  [9, 'Q8_1'],
  [15, 'Q8_K'],
  [16, 'IQ2_XXS'],
  [17, 'IQ2_XS'],
  [18, 'IQ3_XXS'],
  [19, 'IQ1_S'],
  [20, 'IQ4_NL'],
  [21, 'IQ3_S'],
  [22, 'IQ2_S'],
  [23, 'IQ4_XS'],
  [24, 'I8'],
  [25, 'I16'],
  [26, 'I32'],
  [27, 'I64'],
  [28, 'F64'],
  [29, 'IQ1_M'],
  [31, 'Q4_0_4_4'],
  [32, 'Q4_0_4_8'],
  [33, 'Q4_0_8_8'],
  [34, 'TQ1_0'],
  [35, 'TQ2_0'],
  [36, 'IQ4_NL_4_4'],
  [37, 'IQ4_NL_4_8'],
  [38, 'IQ4_NL_8_8'],
  [39, 'MXFP4'],
  [40, 'NVFP4'],
  [41, 'Q1_0'],
]);

export const SUPPORTED_TYPE_NAMES: string = [...SUPPORTED.values()].join(', ');

export function weightTypeOf(id: number): WeightType | undefined {
  return SUPPORTED.get(id);
}

/** A type that is not supported, in words. */
export function describeTensorType(id: number): string {
  const name = OTHERS.get(id);
  return name === undefined ? `the unknown type ${id}` : `type ${name} (${id})`;
}
