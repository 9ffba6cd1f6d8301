import { quoted } from '../../arguments/found.js';

/**
 * Text from a file, fit for an error message: as it is where short and plain, else quoted, escaped and cut after
 * `limit` characters.
 */
export function printable(text: string, limit = 120): string {
  if (text.length <= limit && /^[\x21-\x7e]+$/.test(text)) return text;
  return quoted(text.length <= limit ? text : `${text.slice(0, limit)}…`);
}

/** The first few names of a list, for an error message. */
export function listMissing(names: readonly string[], most = 8): string {
  const listed = names
    .slice(0, most)
    .map((name) => printable(name))
    .join(', ');
  return names.length > most ? `${listed} and ${names.length - most} more` : listed;
}
