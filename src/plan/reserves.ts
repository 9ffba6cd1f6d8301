/** What the engine reserves and the cost model counts: `PAGE_TOKENS` and `HEAP_MARGIN_BYTES` are one truth for both. */

/** Tokens of a page of the KV cache. */
export const PAGE_TOKENS = 32;

/**
 * What a process takes before it opens a model: the program, the library, the tokenizer. Measured; a cap on the process
 * includes it. Plans for a model that nobody opens take it off the cap; an engine asks the system what its process has.
 */
export const PROCESS_BYTES = 110 * 2 ** 20;

/** Left for the JavaScript heap to grow in: rows in flight, buffers of files, results that wait. */
export const HEAP_MARGIN_BYTES = 64 * 2 ** 20;
