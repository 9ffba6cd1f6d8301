/**
 * Text from a file, fit for an error message: as it is where short and plain, else quoted, escaped and cut after
 * `limit` characters.
 */
export function printable(text: string, limit = 120): string {
  if (text.length <= limit && /^[\x21-\x7e]+$/.test(text)) return text;
  return JSON.stringify(text.length <= limit ? text : `${text.slice(0, limit)}…`);
}
