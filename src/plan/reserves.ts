/** What the engine reserves and the cost model counts: one truth for both. */

/** Tokens of a page of the KV cache. */
export const PAGE_TOKENS = 32;

/**
 * What a process takes before it opens a model: the program, the library, the tokenizer. Measured; a cap on the process
 * includes it.
 */
export const PROCESS_BYTES = 110 * 2 ** 20;

/** Left for the JavaScript heap to grow in: rows in flight, buffers of files, results that wait. */
export const HEAP_MARGIN_BYTES = 64 * 2 ** 20;

/**
 * What the program and the library take before a runtime is opened, and a tokenizer for each of its tokens. Resident
 * memory of fourteen starts each: 81 to 82 MiB without a tokenizer, 105 to 117 with 49,152 tokens.
 */
const BEFORE_TOKENS_BYTES = 88 * 2 ** 20;
const TOKEN_BYTES = 640;
/**
 * A process that holds no more than this beyond the usual is a usual one: a search for a plan, or a heap that is
 * collected a little later, leaves what the heap takes again as it grows, in its margin. (126 to 158 MiB in all were
 * found behind searches.)
 */
const UNEVEN_BYTES = 48 * 2 ** 20;
/**
 * Of a process that holds more, the next start may find so much more; what is advised for it is a multiple of the step.
 */
const NEXT_START_BYTES = 16 * 2 ** 20;
const ADVICE_STEP_BYTES = 32 * 2 ** 20;

export interface ProcessBytes {
  /**
   * What counts against the cap at this start, and of a usual process at every start: what it really holds differs by
   * megabytes, and a budget may not.
   */
  readonly residentBytes: number;
  /** The same at later starts, at most: what advice has to reckon with. */
  readonly laterBytes: number;
}

/**
 * What a process is taken to hold before its runtime is opened.
 * @param residentBytes what it does hold
 */
export function processBytes(residentBytes: number, vocabularySize: number): ProcessBytes {
  const usual = BEFORE_TOKENS_BYTES + vocabularySize * TOKEN_BYTES;
  if (residentBytes <= usual + UNEVEN_BYTES) return { residentBytes: usual, laterBytes: usual };
  return {
    residentBytes,
    laterBytes: Math.ceil((residentBytes + NEXT_START_BYTES) / ADVICE_STEP_BYTES) * ADVICE_STEP_BYTES,
  };
}
