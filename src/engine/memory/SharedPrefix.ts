/**
 * What engines that compute the same rows have to know of a row's pages. Those that rows share have numbers, given by
 * the engine that decides on them.
 */
export interface SharedPrefix {
  /** Of the pages that its table begins with, which others have computed. */
  readonly pages: readonly number[];
  /** The page that its own first one begins as a copy of, and its first position that is not copied. */
  readonly copy?: { readonly page: number; readonly position: number };
  /** Of its own pages, from the first, as far as others may share them from now on. */
  readonly own: readonly number[];
}
