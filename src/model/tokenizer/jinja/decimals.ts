import { PythonError, unsupported, valueError } from './errors.js';
import { make } from './meter.js';
import { Float } from './values.js';

/** Digits beyond which no number is written. */
const MOST_DIGITS = 400;

/** A finite number's magnitude times a power of ten, rounded to a whole one; halves to the even one, exactly. */
function scaled(magnitude: number, power: number): bigint {
  if (magnitude === 0) return 0n;
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, magnitude);
  const bits = view.getBigUint64(0);
  const exponent = Number(bits >> 52n);
  let numerator = (bits & ((1n << 52n) - 1n)) | (exponent === 0 ? 0n : 1n << 52n);
  let denominator = 1n;
  const shift = Math.max(exponent, 1) - 1075;
  if (shift > 0) numerator <<= BigInt(shift);
  else denominator <<= BigInt(-shift);
  if (power > 0) numerator *= 10n ** BigInt(power);
  else denominator *= 10n ** BigInt(-power);
  const quotient = numerator / denominator;
  const rest = (numerator % denominator) * 2n;
  return rest > denominator || (rest === denominator && quotient % 2n === 1n) ? quotient + 1n : quotient;
}

function checkDigits(digits: number): void {
  if (digits > MOST_DIGITS) throw unsupported(`a number with ${digits} digits`);
}

/** A magnitude with so many digits after its point. */
export function fixed(magnitude: number, precision: number): string {
  checkDigits(precision);
  const digits = scaled(magnitude, precision)
    .toString()
    .padStart(precision + 1, '0');
  make(digits.length);
  return precision === 0 ? digits : `${digits.slice(0, -precision)}.${digits.slice(-precision)}`;
}

/** A magnitude's digits, one more than the precision, and its power of ten. */
function scientific(magnitude: number, precision: number): { digits: string; power: number } {
  checkDigits(precision);
  if (magnitude === 0) return { digits: '0'.repeat(precision + 1), power: 0 };
  let power = Number(magnitude.toExponential().split('e')[1]);
  let digits = scaled(magnitude, precision - power).toString();
  if (digits.length > precision + 1) {
    power++;
    digits = scaled(magnitude, precision - power).toString();
  }
  return { digits, power };
}

export function powerText(power: number): string {
  return `e${power < 0 ? '-' : '+'}${String(Math.abs(power)).padStart(2, '0')}`;
}

function exponential(magnitude: number, precision: number): string {
  const { digits, power } = scientific(magnitude, precision);
  return `${digits.charAt(0)}${precision > 0 ? `.${digits.slice(1)}` : ''}${powerText(power)}`;
}

function general(magnitude: number, precision: number, keepZeros: boolean): string {
  const significant = Math.max(1, precision);
  const { digits, power } = scientific(magnitude, significant - 1);
  const plain = power >= -4 && power < significant;
  let mantissa = plain
    ? fixed(magnitude, significant - 1 - power)
    : digits.charAt(0) + (significant > 1 ? `.${digits.slice(1)}` : '');
  if (!keepZeros && mantissa.includes('.')) mantissa = mantissa.replace(/\.?0+$/, '');
  return plain ? mantissa : mantissa + powerText(power);
}

/** A magnitude as C's `e`, `f` or `g` writes it. */
export function magnitudeText(magnitude: number, type: string, precision: number, alternate: boolean): string {
  const kind = type.toLowerCase();
  let text: string;
  if (Number.isNaN(magnitude)) text = 'nan';
  else if (!Number.isFinite(magnitude)) text = 'inf';
  else if (kind === 'f') text = fixed(magnitude, precision) + (alternate && precision === 0 ? '.' : '');
  else if (kind === 'e') text = exponential(magnitude, precision);
  else text = general(magnitude, precision, alternate);
  return type === kind ? text : text.toUpperCase();
}

/** `round(number, digits)`, halves to the even one. */
export function rounded(value: number, digits: number): Float {
  if (!Number.isFinite(value) || digits > 323) return new Float(value);
  if (digits < -308) return new Float(value < 0 || Object.is(value, -0) ? -0 : 0);
  const magnitude = Math.abs(value);
  const whole = scaled(magnitude, digits).toString();
  const result = Number(`${whole}e${-digits}`);
  return new Float(value < 0 || Object.is(value, -0) ? -result : result);
}

/** `round` of a whole number to tens, hundreds, …. */
export function roundedInt(value: number | bigint, digits: number): bigint {
  if (digits >= 0) return BigInt(value);
  if (digits < -5000) return 0n;
  const unit = 10n ** BigInt(-digits);
  const magnitude = BigInt(value) < 0n ? -BigInt(value) : BigInt(value);
  const rest = (magnitude % unit) * 2n;
  const quotient = magnitude / unit;
  const up = rest > unit || (rest === unit && quotient % 2n === 1n);
  const result = (quotient + (up ? 1n : 0n)) * unit;
  return BigInt(value) < 0n ? -result : result;
}

/** A float that `int()` makes whole. */
export function wholeOf(value: number): bigint {
  if (Number.isNaN(value)) throw valueError('cannot convert float NaN to integer');
  if (!Number.isFinite(value)) throw new PythonError('OverflowError', 'cannot convert float infinity to integer');
  return BigInt(Math.trunc(value));
}
