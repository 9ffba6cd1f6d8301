import { createHash } from 'node:crypto';
import { UsageError } from '../../errors/UsageError.js';
import type { RowInput } from '../../Row.js';

/** The bytes of a regular file. */
export interface FileFingerprint {
  readonly bytes: number;
  readonly sha256: string;
}

/**
 * An input: one regular file, several in their order, or of a stream its first row (null: there was none), as the rest
 * is not there yet.
 */
export type InputFingerprint =
  | ({ readonly kind: 'file' } & FileFingerprint)
  | { readonly kind: 'files'; readonly files: readonly FileFingerprint[] }
  | { readonly kind: 'stream'; readonly firstRow: string | null; readonly read?: RowsRead };

/**
 * The first rows of a stream, as far as runs that came to an end, or were interrupted, have read it: of one that was
 * killed nothing more is known.
 */
export interface RowsRead {
  readonly rows: number;
  readonly sha256: string;
}

export function fingerprintFiles(files: readonly FileFingerprint[]): InputFingerprint {
  const [only] = files;
  return files.length === 1 && only !== undefined ? { kind: 'file', ...only } : { kind: 'files', files };
}

/** The files of an input; undefined for a stream. */
export function filesOf(input: InputFingerprint): readonly FileFingerprint[] | undefined {
  return input.kind === 'file'
    ? [input]
    : input.kind === 'files' && Array.isArray(input.files)
      ? input.files
      : undefined;
}

/** @param read what is known of the rows after the first one */
export function fingerprintFirstRow(row: RowInput | undefined, read?: RowsRead): InputFingerprint {
  return {
    kind: 'stream',
    firstRow: row === undefined ? null : createHash('sha256').update(stringify(row)).digest('hex'),
    ...(read && { read }),
  };
}

/** Picks what of an input a run is compared by before reading it. */
export function begunBy(input: InputFingerprint): InputFingerprint {
  return input.kind === 'stream' ? { kind: 'stream', firstRow: input.firstRow } : input;
}

/** Gives the rows of a stream that runs before read. */
export function readBefore(input: InputFingerprint | undefined): RowsRead | undefined {
  return input?.kind === 'stream' ? input.read : undefined;
}

/** A running hash of the rows of a stream. */
export class RowsDigest {
  readonly #hash = createHash('sha256');
  #rows = 0;

  /** @param before what it has to come by, as far as that goes */
  constructor(readonly before: RowsRead | undefined) {}

  /** The rows that a run that goes on will have to come by. */
  get read(): RowsRead {
    return this.#awaited ?? this.#now();
  }

  /** Tells whether all that the run before read has come by. */
  get confirmed(): boolean {
    return this.#awaited === undefined;
  }

  /** @throws UsageError once the rows are not those of the run before */
  add(row: RowInput): void {
    this.#hash.update(stringify(row)).update('\n');
    this.#rows += 1;
    if (this.#rows !== this.before?.rows || this.#now().sha256 === this.before.sha256) return;
    throw new UsageError(
      `the first ${this.#rows} rows of the input are not those that the run before read; it was begun with another input`,
    );
  }

  /** @throws UsageError if there were more rows before */
  end(): void {
    if (this.#awaited === undefined) return;
    throw new UsageError(
      `the input has ${this.#rows} rows, and the run before read ${this.#awaited.rows}; it was begun with another input`,
    );
  }

  /** The rows that have not come by yet. */
  get #awaited(): RowsRead | undefined {
    return this.before !== undefined && this.#rows < this.before.rows ? this.before : undefined;
  }

  #now(): RowsRead {
    return { rows: this.#rows, sha256: this.#hash.copy().digest('hex') };
  }
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
