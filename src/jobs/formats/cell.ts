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
