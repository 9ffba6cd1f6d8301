const BYTES = Float32Array.BYTES_PER_ELEMENT;

/** Numbers of 9 significant digits, which are the float32's own: each is read back as the same one. Pure. */
export function float32Numbers(values: Float32Array): number[] {
  return Array.from(values, (value) => Number(value.toPrecision(9)));
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
