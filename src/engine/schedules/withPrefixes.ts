import type { RowId, RowRange, Square } from '../grid/Square.js';

/** Where a row really begins, of which its schedule knows nothing. */
export interface RowBegin {
  /** Tokens of its prompt that others have computed: its first position. */
  readonly firstPosition: number;
  /** False for a prefix: it is computed for its keys and values alone, and no head looks at it. */
  readonly samples: boolean;
}

/**
 * A schedule counts a row's positions from the first that has to be computed, so that none need know of prefixes: here
 * they become the row's own. Squares of one batch share one array of ranges, as before. Pure.
 */
export function* withPrefixes(
  squares: Iterable<Square>,
  beginOf: (row: RowId) => RowBegin | undefined,
): Generator<Square, void, undefined> {
  const known = new Map<readonly RowRange[], readonly RowRange[]>();
  for (const square of squares) {
    let rows = known.get(square.rows);
    if (!rows) {
      rows = square.rows.some(({ row }) => beginOf(row))
        ? square.rows.map((range) => begunAt(range, beginOf(range.row)))
        : square.rows;
      known.set(square.rows, rows);
    }
    yield rows === square.rows ? square : { ...square, rows };
  }
}

function begunAt(range: RowRange, begin: RowBegin | undefined): RowRange {
  if (!begin) return range;
  return {
    ...range,
    firstPosition: range.firstPosition + begin.firstPosition,
    sharedTokens: begin.firstPosition,
    ...(begin.samples ? {} : { head: 'none' as const }),
  };
}
