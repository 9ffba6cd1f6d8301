/** A backslash and what it escapes: another one, or half of a character, which stands so only where it is alone. */
const ESCAPE = /\\(?:\\|u(d[89a-f][0-9a-f]{2}))/g;

/** Rows as JSON that databases read: halves of characters, which their texts have none of, are replaced. */
export function jsonOf(rows: unknown): string {
  const json = JSON.stringify(rows);
  if (!json.includes('\\ud')) return json;
  return json.replace(ESCAPE, (escape, half: string | undefined) => (half === undefined ? escape : '\ufffd'));
}
