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
   * In bytes or e.g. '64MiB': what all rows in flight may take, from when they are read until their results are handed
   * on (what they bring and carry, their tokens, their results; one may be in flight whatever it takes). What
   * `cpuMemory` leaves for them bounds it, too. Default: that, 24 MiB at least. The last answers that are kept for
   * equal rows may take a fourth of it beside; where nothing is said, 8 MiB.
   */
  readonly bytes?: Size;
}

/** Rows that may be asked for. */
export const ROWS_AHEAD = { ...wholeRange(0, 2 ** 20), fallback: 1024 };
/** Bytes that the last answers, kept for equal rows, may take by default. */
const ANSWER_BYTES = 8 * 2 ** 20;

/** With what is left out filled in: rows may take as much as there is for them. Pure. */
export function settledLookAhead({ rows = ROWS_AHEAD.fallback, bytes: given }: RowLookAhead = {}): {
  readonly rows: number;
  readonly bytes: number;
  readonly answerBytes: number;
} {
  const bytes = given === undefined ? Infinity : parseBytes(given, 'lookAhead.bytes');
  return { rows, bytes, answerBytes: given === undefined ? ANSWER_BYTES : bytes / 4 };
}
