import { createHash } from 'node:crypto';
import type { RowInput } from '../Row.js';

/** The bytes of a regular file. */
export interface FileFingerprint {
  readonly bytes: number;
  readonly sha256: string;
}

/** An input: one regular file, several in their order, or of a stream its first row (null: there was none), as the rest is not there yet. */
export type InputFingerprint =
  | ({ readonly kind: 'file' } & FileFingerprint)
  | { readonly kind: 'files'; readonly files: readonly FileFingerprint[] }
  | { readonly kind: 'stream'; readonly firstRow: string | null };

export function fingerprintFiles(files: readonly FileFingerprint[]): InputFingerprint {
  const [only] = files;
  return files.length === 1 && only !== undefined ? { kind: 'file', ...only } : { kind: 'files', files };
}

/** The files of an input; undefined for a stream. */
export function filesOf(input: InputFingerprint): readonly FileFingerprint[] | undefined {
  return input.kind === 'file' ? [input] : input.kind === 'files' && Array.isArray(input.files) ? input.files : undefined;
}

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
