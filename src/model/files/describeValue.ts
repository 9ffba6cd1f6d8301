/** A value of a model's file in words, short whatever it is. */
export function describeValue(value: unknown): string {
  if (value === undefined) return 'nothing';
  if (typeof value === 'string') return JSON.stringify(value.length > 60 ? `${value.slice(0, 60)}…` : value);
  if (Array.isArray(value) || ArrayBuffer.isView(value)) {
    const entries = value as unknown as ArrayLike<unknown>;
    return `an array of ${entries.length}`;
  }
  if (typeof value === 'object' && value !== null) return 'an object';
  return value === null || typeof value === 'number' || typeof value === 'bigint' || typeof value === 'boolean'
    ? String(value)
    : `a ${typeof value}`;
}
