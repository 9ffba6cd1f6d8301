/** What the engine reserves and the cost model counts: one truth for both. */

/** Tokens of a page of the KV cache. */
export const PAGE_TOKENS = 32;

/** Left for the JavaScript heap to grow in: rows in flight, buffers of files, results that wait. */
export const HEAP_MARGIN_BYTES = 64 * 2 ** 20;
