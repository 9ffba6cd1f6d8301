import type { CompressedType, TensorBinding, WeightType } from './TensorBinding.js';

export const WEIGHT_COMPRESSIONS = ['none', '8bit', '4bit'] as const;
/** What weights are stored in, beyond what their file has. */
export type WeightCompression = (typeof WEIGHT_COMPRESSIONS)[number];

/** Bits of one stored number, scales not counted. */
const VALUE_BITS: Readonly<Record<WeightType, number>> = {
  F32: 32,
  F16: 16,
  BF16: 16,
  Q8_0: 8,
  Q6_K: 6,
  Q5_0: 5,
  Q5_1: 5,
  Q5_K: 5,
  Q4_0: 4,
  Q4_1: 4,
  Q4_K: 4,
  Q3_K: 3,
  Q2_K: 2,
};
const GROUP: Readonly<Record<CompressedType, number>> = { Q4_G64: 64, Q8_0: 32 };

/**
 * Says which matrices are compressed while they are loaded or repacked, and to what.
 *
 * - `8bit`: matrices of more than 8 bits become Q8_0 (groups of 32, symmetric; 8.5 bits a weight).
 * - `4bit`: the layers' matrices of more than 4 bits become Q4_G64 (groups of 64 with scale and minimum, 4.5 bits a
 *   weight: FlexGen, section 4.3). Token embedding, head and the projections around them become Q8_0 instead: every
 *   token's result hangs on few of their rows, and they are read once a pass, not once a layer.
 *
 * Vectors, routers and position embeddings keep their precision, and so does what has as few bits already: rounding
 * twice would only lose. Rows that are no whole groups of 64 get 8 bits; rows that are no whole groups of 32 stay as
 * they are.
 */
export function compressBindings(
  bindings: readonly TensorBinding[],
  compression: WeightCompression,
): readonly TensorBinding[] {
  if (compression === 'none') return bindings;
  return bindings.map((binding) => {
    const compressed = typeFor(binding, compression);
    return compressed === undefined ? binding : { ...binding, compressed };
  });
}

function typeFor(binding: TensorBinding, compression: WeightCompression): CompressedType | undefined {
  const { kind, role, layer, type, columns } = binding;
  if (kind !== 'matrix' || role === 'router.weight' || role === 'position_embedding') return undefined;
  const bits = VALUE_BITS[type];
  if (compression === '4bit' && layer >= 0 && bits > 4 && columns % GROUP.Q4_G64 === 0) return 'Q4_G64';
  return bits > 8 && columns % GROUP.Q8_0 === 0 ? 'Q8_0' : undefined;
}
