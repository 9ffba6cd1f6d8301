import type { RowRange } from '../grid/Square.js';
import type { PageTable } from '../grid/PageTable.js';

/** Pages of one layer that a range of a row needs room for where attention happens. */
export interface StagedPages {
  /** Pages of the disk that were complete before: they are read. */
  readonly loads: number;
  /** Pages of the disk that the range completes: they are written. */
  readonly stores: number;
}

/**
 * What of a row's pages on disk moves when a range of it is computed in a layer. Pure.
 *
 * @param window the layer's attention window in tokens; 0 = all positions. Pages that no token of the range sees stay
 * where they are
 */
export function stagedPages(
  { firstPosition, tokens }: RowRange,
  { entries, tail }: PageTable,
  pageTokens: number,
  window: number,
): StagedPages {
  if (tail < 0) return { loads: 0, stores: 0 };
  const begun = Math.floor(firstPosition / pageTokens);
  const complete = Math.floor((firstPosition + tokens) / pageTokens);
  const seen = window === 0 ? 0 : Math.floor(Math.max(0, firstPosition - window + 1) / pageTokens);
  let loads = 0;
  let stores = 0;
  for (let page = seen; page < begun; page++) if ((entries[page] ?? 0) < 0) loads++;
  for (let page = begun; page < complete; page++) if ((entries[page] ?? 0) < 0) stores++;
  return { loads, stores };
}
