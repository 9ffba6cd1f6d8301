import type { TensorBinding } from './TensorBinding.js';
import { WEIGHT_TYPES, type CompressedType } from './weightTypes.js';

export const WEIGHT_COMPRESSIONS = ['none', '8bit', '4bit'] as const;
/** The format that weights are stored in, beyond what their file has. */
export type WeightCompression = (typeof WEIGHT_COMPRESSIONS)[number];

const GROUP: Readonly<Record<CompressedType, number>> = { Q4_G64: 64, Q8_0: 32, Q8_R: 32 };

/**
 * Says which matrices are compressed while they are loaded or repacked, and to what.
 *
 * - `8bit`: matrices of more than 8 bits become Q8_0 (groups of 32, symmetric; 8.5 bits a weight), but for those that
 *   an encoder's family leaves as they are (`notEightBits`).
 * - `4bit`: the layers' matrices of more than 4 bits become Q4_G64 (groups of 64 with scale and minimum, 4.5 bits a
 *   weight: FlexGen, section 4.3). Token embedding, head and the projections around them become Q8_0 instead: every
 *   token's result hangs on few of their rows, and they are read once a pass, not once a layer.
 *
 * Vectors, routers, layers over pooled states and the embeddings of positions and types keep their precision, and so
 * does what has as few bits already: rounding twice would only lose. Rows that are no whole groups of 64 get 8 bits;
 * rows that are no whole groups of 32 stay as they are.
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

/** Matrices on few numbers of which much depends, and which are small. */
const EXACT: ReadonlySet<TensorBinding['role']> = new Set([
  'router.weight',
  'shared_gate.weight',
  'position_embedding',
  'type_embedding',
  'relative_bias',
  'distance_embedding',
]);

function typeFor(binding: TensorBinding, compression: WeightCompression): CompressedType | undefined {
  const { layer, type, columns } = binding;
  if (!isCompressible(binding)) return undefined;
  const { bits } = WEIGHT_TYPES[type];
  if (compression === '4bit' && layer >= 0 && bits > 4 && columns % GROUP.Q4_G64 === 0) return 'Q4_G64';
  if (compression === '8bit' && binding.notEightBits === true) return undefined;
  return bits > 8 && columns % GROUP.Q8_0 === 0 ? 'Q8_0' : undefined;
}

function isCompressible({ kind, role }: TensorBinding): boolean {
  return kind === 'matrix' && !EXACT.has(role) && !role.startsWith('pooled.');
}

export const WEIGHTS_LAYOUTS = ['as-is', 'int8'] as const;
/** The form in which products take a model's matrices. */
export type WeightsLayout = (typeof WEIGHTS_LAYOUTS)[number];

/**
 * Has all matrices but those that keep their precision anyway rounded to 8 bits with one scale a row (Q8_R) while they
 * are loaded or repacked, whatever their file has. Rows that are no whole groups of 32 stay as they are.
 */
export function int8Bindings(bindings: readonly TensorBinding[]): readonly TensorBinding[] {
  return bindings.map((binding) =>
    isCompressible(binding) && binding.columns % GROUP.Q8_R === 0 ? { ...binding, compressed: 'Q8_R' } : binding,
  );
}
