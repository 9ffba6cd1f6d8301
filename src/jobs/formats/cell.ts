/** A value as text: what is no text, number or truth value as JSON writes it; undefined for none. */
export function cell(value: unknown): string | undefined {
  if (value === undefined || value === null) return undefined;
  if (value instanceof Date) return value.toISOString();
  if (typeof value === 'string') return value;
  return typeof value === 'object' ? JSON.stringify(value, (_, part: unknown) => (typeof part === 'bigint' ? String(part) : part)) : `${value as number | bigint | boolean}`;
}
