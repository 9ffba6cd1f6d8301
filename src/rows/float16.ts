/** The largest number that there is in float16. */
export const LARGEST_FLOAT16 = 65504;
/** Binary places of a number after its first one, and the exponent below which there are fewer. */
const PLACES = 10;
const LEAST_EXPONENT = -14;

/** The nearest number of float16, of two the even one; infinite beyond the largest. Pure. */
export function roundedToFloat16(value: number): number {
  if (!Number.isFinite(value) || value === 0) return value;
  const step = 2 ** (Math.max(exponentOf(value), LEAST_EXPONENT) - PLACES);
  const steps = Math.abs(value) / step;
  const below = Math.floor(steps);
  const up = steps - below > 0.5 || (steps - below === 0.5 && below % 2 === 1);
  const rounded = (below + Number(up)) * step;
  return Math.sign(value) * (rounded > LARGEST_FLOAT16 ? Infinity : rounded);
}

/** The 16 bits of a number of float16. Pure. */
export function float16Bits(value: number): number {
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  const size = Math.abs(value);
  if (Number.isNaN(size)) return 0x7e00;
  if (size > LARGEST_FLOAT16) return sign | 0x7c00;
  const exponent = size === 0 ? -Infinity : exponentOf(size);
  if (exponent < LEAST_EXPONENT) return sign | (size * 2 ** (PLACES - LEAST_EXPONENT));
  return sign | ((exponent - LEAST_EXPONENT + 1) << PLACES) | ((size * 2 ** -exponent - 1) * 2 ** PLACES);
}

/** The other way. Pure. */
export function ofFloat16Bits(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> PLACES) & 0x1f;
  const fraction = (bits & 0x3ff) / 2 ** PLACES;
  if (exponent === 0x1f) return fraction === 0 ? sign * Infinity : NaN;
  return exponent === 0
    ? sign * fraction * 2 ** LEAST_EXPONENT
    : sign * (1 + fraction) * 2 ** (exponent - 1 + LEAST_EXPONENT);
}

/** Gives the largest power of two that is not more than a number other than 0. Math.log2 is off beside one. */
function exponentOf(value: number): number {
  const size = Math.abs(value);
  const about = Math.floor(Math.log2(size));
  return 2 ** about > size ? about - 1 : 2 ** (about + 1) <= size ? about + 1 : about;
}
