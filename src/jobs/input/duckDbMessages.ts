import type { DuckDbQuery } from './duckDbRows.js';
import type { ValuePart } from './valueParts.js';

/*
 * What the process in which DuckDB runs is asked, one thing at a time, and how it answers: an answer holds a bounded
 * part of what there is, and the next one is made when it is asked for.
 */

/** The query, once; what comes next; and of the row before, which takes too much, some columns. */
export type Request = DuckDbQuery | 'next' | { readonly columns: readonly number[]; readonly most: number };

export type Answer =
  /** The names of the columns. */
  | { readonly kind: 'header'; readonly header: readonly string[] }
  /**
   * Rows that are short. After them there is one that comes in parts, which are asked for, or one whose values take
   * more than a row's may.
   */
  | {
      readonly kind: 'rows';
      readonly rows: readonly (readonly unknown[])[];
      readonly then?: 'long' | 'too-large' | undefined;
    }
  /** Parts of a long row. */
  | { readonly kind: 'parts'; readonly parts: readonly ValuePart[]; readonly last: boolean }
  /** Values of columns that were asked for; undefined where they take too much. */
  | { readonly kind: 'values'; readonly values: readonly unknown[] | undefined }
  | { readonly kind: 'end' }
  /** An error: of usage, or of a file or database. */
  | { readonly kind: 'error'; readonly file: string | undefined; readonly words: string };

/** Bytes of the values of an answer, as `heldBytes` counts them: a row that alone has more comes in parts. */
export const ANSWER_BYTES = 2 ** 20;
/** Rows, and parts, of an answer at most. */
export const ANSWER_ROWS = 2048;
export const ANSWER_PARTS = 2 ** 14;
