import { found } from './found.js';
import { shortened } from './shortened.js';

/**
 * A value as it stands in a document or a row: the JSON of objects and arrays; the rest, and what JSON cannot hold, in
 * the words of `found`. Never throws.
 */
export function foundJson(value: unknown): string {
  if (typeof value !== 'object' || value === null) return found(value);
  try {
    return shortened(JSON.stringify(value));
  } catch {
    return found(value); // a cycle, a BigInt in it, what makes no text of itself
  }
}
