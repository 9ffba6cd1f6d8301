/**
 * Which positions of a row the layers of a group keep in the cache. Whatever counts, takes and gives back pages asks
 * the law, and knows none by name: another one (eviction of keys, say) is another object.
 */
export interface CacheLaw {
  /** Pages, from the first, of which nothing is looked at once all positions before `through` have been computed. */
  letGo(through: number, pageTokens: number): number;
  /** Counts the first of these pages that stay nevertheless, as long as the row lives. */
  stays(pageTokens: number): number;
  /** Most pages of a row that are kept at once, `tokens` of which are under way or come next. */
  mostPages(tokens: number, pageTokens: number): number;
}

/** All positions are kept until the row ends. */
export const ALL_POSITIONS: CacheLaw = { letGo: () => 0, stays: () => 0, mostPages: () => Infinity };

/** Tokens see those from the last multiple of `chunk` on: whole chunks before it are given back. */
export function lastChunk(chunk: number): CacheLaw {
  return {
    letGo: (through, pageTokens) => Math.floor((Math.floor(through / chunk) * chunk) / pageTokens),
    stays: () => 0,
    mostPages: (tokens, pageTokens) => Math.ceil((chunk - 1 + tokens - 1) / pageTokens) + 1,
  };
}

/** A token sees itself and the `window` - 1 tokens before it: pages before those are given back. */
export function lastPositions(window: number): CacheLaw {
  return {
    letGo: (through, pageTokens) => Math.floor(Math.max(0, through - window + 1) / pageTokens),
    stays: () => 0,
    // As many positions, which may begin anywhere in a page.
    mostPages: (tokens, pageTokens) => Math.ceil((window - 1 + tokens - 1) / pageTokens) + 1,
  };
}

/** Attention sinks: the pages of the first `sinks` positions stay, beside those of the last `window` (StreamingLLM). */
export function sinksAndLast({ sinks, window }: { readonly sinks: number; readonly window: number }): CacheLaw {
  return { ...lastPositions(window), stays: (pageTokens) => Math.ceil(sinks / pageTokens) };
}

/**
 * The first position that a token sees in a layer with this window: 0 = all positions; less than 0: those from the last
 * multiple of it on.
 */
export function firstSeen(window: number, position: number): number {
  if (window < 0) return Math.floor(position / -window) * -window;
  return window === 0 ? 0 : Math.max(0, position - window + 1);
}
