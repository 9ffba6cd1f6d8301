import { found } from './found.js';

const MOST_CHARACTERS = 80;

/** A value as it stands in a document or a row: the JSON of objects and arrays; the rest, and what JSON cannot hold, in the words of `found`. Never throws. */
export function foundJson(value: unknown): string {
  if (typeof value !== 'object' || value === null) return found(value);
  try {
    const text = JSON.stringify(value);
    return text.length > MOST_CHARACTERS ? `${text.slice(0, MOST_CHARACTERS)}…` : text;
  } catch {
    return found(value); // a cycle, a BigInt in it, what makes no text of itself
  }
}
