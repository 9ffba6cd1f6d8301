/**
 * Element types of weights as they stand in a file: one row a type. `id` is GGML's number; rows of a tensor are whole
 * blocks of `elements` in `bytes` (ggml-common.h); `bits` are those of one stored number, scales not counted; `kept`
 * are the bytes of a block in memory and in repacked files, where nested scales are unpacked (panelLayout.h).
 * The addon has the same table, and all that kernels need to know beside it: native/kernels/cpu/WeightTypes.def.
 */
export const WEIGHT_TYPES = {
  F32: { id: 0, elements: 1, bytes: 4, bits: 32, kept: 4 },
  F16: { id: 1, elements: 1, bytes: 2, bits: 16, kept: 2 },
  Q4_0: { id: 2, elements: 32, bytes: 18, bits: 4, kept: 18 },
  Q4_1: { id: 3, elements: 32, bytes: 20, bits: 4, kept: 20 },
  Q5_0: { id: 6, elements: 32, bytes: 22, bits: 5, kept: 22 },
  Q5_1: { id: 7, elements: 32, bytes: 24, bits: 5, kept: 24 },
  Q8_0: { id: 8, elements: 32, bytes: 34, bits: 8, kept: 34 },
  Q2_K: { id: 10, elements: 256, bytes: 84, bits: 2, kept: 84 },
  Q3_K: { id: 11, elements: 256, bytes: 110, bits: 3, kept: 114 },
  Q4_K: { id: 12, elements: 256, bytes: 144, bits: 4, kept: 148 },
  Q5_K: { id: 13, elements: 256, bytes: 176, bits: 5, kept: 180 },
  Q6_K: { id: 14, elements: 256, bytes: 210, bits: 6, kept: 210 },
  IQ4_NL: { id: 20, elements: 32, bytes: 18, bits: 4, kept: 18 },
  IQ4_XS: { id: 23, elements: 256, bytes: 136, bits: 4, kept: 138 },
  BF16: { id: 30, elements: 1, bytes: 2, bits: 16, kept: 2 },
  MXFP4: { id: 39, elements: 32, bytes: 17, bits: 4, kept: 17 },
} as const satisfies Readonly<Record<string, WeightTypeFacts>>;

export interface WeightTypeFacts {
  readonly id: number;
  readonly elements: number;
  readonly bytes: number;
  readonly bits: number;
  readonly kept: number;
}

export type WeightType = keyof typeof WEIGHT_TYPES;

/**
 * The types that matrices can be compressed to. Two are in no file: Q4_G64 is 4 bits in groups of 64 with a scale and a
 * minimum, Q8_R 8 bits with one scale a row.
 */
export type CompressedType = 'Q4_G64' | 'Q8_0' | 'Q8_R';

/** A type that GGML has or had and Spillway does not read; what to take instead, where there is something to say. */
export interface UnreadType {
  readonly name: string;
  readonly instead?: string;
}

const unread = (instead: string | undefined, types: Readonly<Record<number, string>>): [number, UnreadType][] =>
  Object.entries(types).map(([id, name]) => [Number(id), { name, ...(instead !== undefined && { instead }) }]);

/** By GGML's number, for error messages. */
export const UNREAD_TYPES: ReadonlyMap<number, UnreadType> = new Map([
  ...unread("the model's file of Q2_K or Q3_K_M, the fewest bits that are read", {
    16: 'IQ2_XXS',
    17: 'IQ2_XS',
    18: 'IQ3_XXS',
    19: 'IQ1_S',
    21: 'IQ3_S',
    22: 'IQ2_S',
    29: 'IQ1_M',
    34: 'TQ1_0',
    35: 'TQ2_0',
    41: 'Q1_0',
  }),
  ...unread("the model's file of MXFP4 or Q4_K_M", { 40: 'NVFP4' }),
  ...unread("the model's file of Q4_0 or IQ4_NL, whose rows GGML used to interleave for some processors", {
    31: 'Q4_0_4_4',
    32: 'Q4_0_4_8',
    33: 'Q4_0_8_8',
    36: 'IQ4_NL_4_4',
    37: 'IQ4_NL_4_8',
    38: 'IQ4_NL_8_8',
  }),
  ...unread('a newer file of the model: GGML has given the type up', { 4: 'Q4_2', 5: 'Q4_3' }),
  ...unread(undefined, { 9: 'Q8_1', 15: 'Q8_K', 24: 'I8', 25: 'I16', 26: 'I32', 27: 'I64', 28: 'F64' }),
]);
