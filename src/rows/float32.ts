const BYTES = Float32Array.BYTES_PER_ELEMENT;

/** Numbers of 9 significant digits, which are the float32's own: each is read back as the same one. Pure. */
export function float32Numbers(values: Float32Array): number[] {
  const numbers = new Array<number>(values.length);
  for (let at = 0; at < values.length; at++) numbers[at] = nineDigits(values[at] ?? 0);
  return numbers;
}

/**
 * `Number(value.toPrecision(9))`, without the text for what most members of vectors are. There a float32 times the
 * power is a number without rounding (24 bits and at most 28), and so is the integer next to it: what the division
 * makes of that is the number nearest to its nine digits, as what is read from them is.
 */
function nineDigits(value: number): number {
  const size = Math.abs(value);
  if (!(size >= 1e-4 && size < 1)) return Number(value.toPrecision(9));
  const power = size >= 1e-2 ? (size >= 1e-1 ? 1e9 : 1e10) : size >= 1e-3 ? 1e11 : 1e12;
  const digits = Math.round(size * power) / power;
  return value < 0 ? -digits : digits;
}

/** As bytes, little-endian, in base64. Pure. */
export function float32Text(values: Float32Array): string {
  const bytes = Buffer.alloc(BYTES * values.length);
  values.forEach((value, at) => bytes.writeFloatLE(value, BYTES * at));
  return bytes.toString('base64');
}

/** The other way; undefined for a text that is none. Pure. */
export function float32Of(text: string): Float32Array | undefined {
  const bytes = Buffer.from(text, 'base64');
  if (bytes.length % BYTES !== 0 || bytes.toString('base64') !== text) return undefined;
  return Float32Array.from({ length: bytes.length / BYTES }, (_, at) => bytes.readFloatLE(BYTES * at));
}
