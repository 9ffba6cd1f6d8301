/**
 * Where a row goes on from what another one has computed in the middle of a page: its page begins as a copy of that
 * one.
 */
export interface PageCopy {
  /**
   * As tables name it; on the tier of the row's own page, or in memory where that is on disk and its tokens stand in
   * the tail.
   */
  readonly from: number;
  /** The row's first position of its own. */
  readonly position: number;
  /** The pages of the further groups of layers. Default: none. */
  readonly further?: readonly number[] | undefined;
}

/** In place of a page that was given back: nothing looks at it any more. */
export const GIVEN_BACK = -(2 ** 31);

/** The pages of a row in one group of layers. */
export interface GroupTable {
  /**
   * In order of position: a page in memory, from 0; after those, a page of the GPU (so many pages as memory has, and
   * its number there); or -1 - d for page d of the disk. Or `GIVEN_BACK`.
   */
  readonly entries: readonly number[];
  /**
   * The page in memory where tokens stand until their page of the disk is complete; -1 for a row that has none there.
   */
  readonly tail: number;
}

/** The page table of a row, as devices read it. It grows while the row does. */
export interface PageTable extends GroupTable {
  /**
   * The tables of the further groups of layers, each with the same positions on the same tiers. Default: there are
   * none.
   */
  readonly further?: readonly GroupTable[] | undefined;
  /**
   * Where the processor and a GPU share attention: pages, from the first, that come to the GPU if they are not there.
   * The table may be shorter. Default: none or all of them come.
   */
  readonly attendedPages?: number | undefined;
  readonly copy?: PageCopy | undefined;
  /** Where engines attend to some rows each: the place of the one that has these pages. Default 0. */
  readonly keeper?: number | undefined;
  /** Where layers remember a state of the row instead of keys and values: its number. Default: none does. */
  readonly state?: number | undefined;
}
