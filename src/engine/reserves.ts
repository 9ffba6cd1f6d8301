/** What the engine reserves and the cost model counts: one truth for both. */

/** Tokens of a page of the KV cache. */
export const PAGE_TOKENS = 32;

/** What a process takes before it opens a model: the program, the library, the tokenizer. Measured; a cap on the process includes it. */
export const PROCESS_BYTES = 110 * 2 ** 20;

/** Left for the JavaScript heap to grow in: rows in flight, buffers of files, results that wait. */
export const HEAP_MARGIN_BYTES = 64 * 2 ** 20;

/**
 * What the same process may hold more at its next start than it did at this one, before it opens a model: by so much the advice of a refusal is above what
 * would have done this time, so that it works when it is followed. Resident memory was 105.7 to 117.5 MiB over fourteen starts of one command (the heap
 * grows by when it is collected), with and without repacking a model first, which leaves nothing behind: 12 MiB, and a third of that for what was not seen.
 */
export const NEXT_START_BYTES = 16 * 2 ** 20;
