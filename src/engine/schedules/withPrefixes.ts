import type { Batch, RowId, RowRange, Square } from '../grid/Square.js';

/** Where a row really begins, of which its schedule knows nothing. */
export interface RowBegin {
  /** Tokens of its prompt that others have computed: its first position. */
  readonly firstPosition: number;
  /** False for a prefix: it is computed for its keys and values alone, and no head looks at it. */
  readonly samples: boolean;
}

/**
 * A schedule counts a row's positions from the first that has to be computed, so that none need know of prefixes: here
 * they become the row's own. Pure.
 */
export function* withPrefixes(
  squares: Iterable<Square>,
  beginOf: (row: RowId) => RowBegin | undefined,
): Generator<Square, void, undefined> {
  const known = new Map<Batch, Batch>();
  for (const square of squares) {
    const { batch: planned, layer } = square;
    let batch = known.get(planned);
    if (!batch) {
      const { rows } = planned;
      batch = rows.some(({ row }) => beginOf(row))
        ? { ...planned, rows: rows.map((range) => begunAt(range, beginOf(range.row))) }
        : planned;
      known.set(planned, batch);
    }
    yield batch === planned ? square : { batch, layer };
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
