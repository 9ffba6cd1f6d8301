import { printable } from './printable.js';

/** The first few names of a list, for an error message. */
export function listMissing(names: readonly string[], most = 8): string {
  const listed = names
    .slice(0, most)
    .map((name) => printable(name))
    .join(', ');
  return names.length > most ? `${listed} and ${names.length - most} more` : listed;
}
