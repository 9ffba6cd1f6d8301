/** E4M3 without infinities. */
export function float8(byte: number): number {
  const [sign, exponent, mantissa] = [byte >> 7 ? -1 : 1, (byte >> 3) & 15, byte & 7];
  if ((byte & 127) === 127) return NaN;
  return sign * (exponent === 0 ? mantissa * 2 ** -9 : (1 + mantissa / 8) * 2 ** (exponent - 7));
}
