import { createHash } from 'node:crypto';
import type { RowInput } from '../Row.js';

/** An input: the bytes of a regular file, or of a stream its first row (null: there was none), as the rest is not there yet. */
export type InputFingerprint =
  | { readonly kind: 'file'; readonly bytes: number; readonly sha256: string }
  | { readonly kind: 'stream'; readonly firstRow: string | null };

export function fingerprintFirstRow(row: RowInput | undefined): InputFingerprint {
  return { kind: 'stream', firstRow: row === undefined ? null : createHash('sha256').update(stringify(row)).digest('hex') };
}

/** A row may hold what JSON cannot write (deep nesting, a bigint); then its id has to do, or that it has none. */
function stringify({ duplicate: _duplicate, carry, ...own }: RowInput): string {
  for (const part of [{ ...own, carry }, own]) {
    try {
      return JSON.stringify(part);
    } catch {
      // The next part says less, and is still the same for the same row.
    }
  }
  return JSON.stringify({ id: own.id });
}
