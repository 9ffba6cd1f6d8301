import { wholeRange } from '../../arguments/NumberRange.js';
import { parseBytes, type Size } from '../../units.js';

/**
 * How far the input is read ahead of the rows that are generated: among those that wait, rows whose prompts begin alike
 * are brought together.
 */
export interface RowLookAhead {
  /** Rows that may wait beyond those for which there are places. Default 1024. */
  readonly rows?: number;
  /**
   * In bytes or e.g. '64MiB', each: what all rows that wait may take (their tokens, and what is kept of what they have
   * in common; one may wait whatever it takes), what rows in flight beyond those that are generated may carry, and what
   * the last answers may take that are kept for equal rows. Default 32 MiB.
   */
  readonly bytes?: Size;
}

/** Rows that may be asked for. */
export const ROWS_AHEAD = { ...wholeRange(0, 2 ** 20), fallback: 1024 };
export const BYTES_AHEAD = 32 * 2 ** 20;

/** With what is left out filled in. Pure. */
export function settledLookAhead({ rows = ROWS_AHEAD.fallback, bytes = BYTES_AHEAD }: RowLookAhead = {}): {
  readonly rows: number;
  readonly bytes: number;
} {
  return { rows, bytes: parseBytes(bytes, 'lookAhead.bytes') };
}
