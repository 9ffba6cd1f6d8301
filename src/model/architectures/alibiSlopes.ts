const f32 = Math.fround;

/**
 * Slopes of ALiBi (Press et al., 2022), one a head, in float32: a geometric series for the largest power of two of the
 * heads, and for the rest every other term of the series for twice as many.
 */
export function alibiSlopes(heads: number): Float32Array {
  const power = 2 ** Math.floor(Math.log2(heads));
  const base = (count: number): number => f32(2 ** -(2 ** -(Math.log2(count) - 3)));
  return Float32Array.from({ length: heads }, (_, head) =>
    head < power ? base(power) ** (head + 1) : base(2 * power) ** (2 * (head - power) + 1),
  );
}
