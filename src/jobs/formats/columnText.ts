/** A value as text: what is no text, number or truth value as JSON writes it; undefined for none. */
export function cell(value: unknown): string | undefined {
  if (value === undefined || value === null) return undefined;
  if (value instanceof Date) return value.toISOString();
  if (typeof value === 'string') return value;
  return typeof value === 'object' ? jsonCell(value) : `${value as number | bigint | boolean}`;
}

/** A value as JSON writes it, texts too; undefined for what it has no words for. */
export function jsonCell(value: unknown): string | undefined {
  return JSON.stringify(value, (_, part: unknown) => (typeof part === 'bigint' ? String(part) : part));
}

/*
 * How typed columns' values that JSON has no words for are written as text.
 */

export const DAY_MILLISECONDS = 86_400_000;
/** How many of its units a second has, and with how many digits parts of one are written. */
const UNITS = { MILLIS: [1_000n, 3], MICROS: [1_000_000n, 6], NANOS: [1_000_000_000n, 9] } as const;
export type TimeUnit = keyof typeof UNITS;

export function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('base64');
}

export function whole(value: bigint): number | string {
  return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
}

export function decimal(value: bigint, scale: number): string {
  if (scale <= 0) return `${value}${'0'.repeat(Math.min(-scale, 100))}`;
  const digits = String(value < 0n ? -value : value).padStart(scale + 1, '0');
  return `${value < 0n ? '-' : ''}${digits.slice(0, -scale)}.${digits.slice(-scale)}`;
}

export function dateOf(days: number): string {
  const date = new Date(days * DAY_MILLISECONDS);
  return Number.isNaN(date.getTime()) ? String(days) : date.toISOString().replace(/T.*$/, '');
}

export function timestampOf(value: bigint, unit: TimeUnit, utc: boolean): string {
  const [second, digits] = UNITS[unit];
  const rest = ((value % second) + second) % second;
  const date = new Date(Number((value - rest) / second) * 1_000);
  if (Number.isNaN(date.getTime())) return String(value);
  return `${date.toISOString().slice(0, -5)}${part(rest, digits)}${utc ? 'Z' : ''}`;
}

export function timeOf(value: bigint, unit: TimeUnit): string {
  const [second, digits] = UNITS[unit];
  const seconds = value / second;
  const two = (number: bigint): string => String(number).padStart(2, '0');
  return `${two(seconds / 3_600n)}:${two((seconds / 60n) % 60n)}:${two(seconds % 60n)}${part(value % second, digits)}`;
}

function part(value: bigint, digits: number): string {
  return `.${String(value).padStart(digits, '0')}`;
}
