import type { RowAttention } from '../model/RowAttention.js';

/**
 * The amounts that the engine reserves and the cost model counts: `PAGE_TOKENS`, `SPILL_BUFFERS`, `SPILL_RUNS`,
 * `inDiskBlocks`, `ringTokenBytes`, `HEAP_MARGIN_BYTES`, `PINNED_BYTES`, `MOVING_BYTES`, `MOVING_TOKENS` and
 * `MOST_PAGES_BYTES` are one truth for both.
 */

/** Tokens of a page of the KV cache. */
export const PAGE_TOKENS = 32;

/**
 * Staged pages of squares, and hidden states on their way to the disk or back: one is read, one computed with, one
 * written.
 */
export const SPILL_BUFFERS = 3;
/** Generations of one engine that may overlap while their hidden states live on disk. */
export const SPILL_RUNS = 4;

const DISK_BLOCK_BYTES = 4096;

/** Bytes in whole blocks, as direct I/O moves them. */
export function inDiskBlocks(bytes: number): number {
  return Math.ceil(bytes / DISK_BLOCK_BYTES) * DISK_BLOCK_BYTES;
}

const BEFORE_TOKENS_BYTES = 88 * 2 ** 20;
const TOKEN_BYTES = 640;

/**
 * Bytes that a process takes before its engine is opened: the program, the library, and a tokenizer for each of its
 * tokens; a cap on the process includes it. Resident memory of fourteen starts each: 81 to 82 MiB without a tokenizer,
 * 105 to 117 with 49,152 tokens. Plans for a model that nobody opens take it off the cap; an engine asks the system as
 * well.
 */
export function typicalProcessBytes(vocabularySize: number): number {
  return BEFORE_TOKENS_BYTES + vocabularySize * TOKEN_BYTES;
}

/**
 * Left for the JavaScript heap to grow in: rows in flight (`ROW_LEDGER_BYTES`), a row that is being read and a result
 * that is being written (`ROW_LIMITS`), buffers of files.
 */
export const HEAP_MARGIN_BYTES = 64 * 2 ** 20;
/** Bytes of that margin that rows in flight and their results may take together. */
export const ROW_LEDGER_BYTES = 24 * 2 ** 20;

/**
 * The part of that margin that is no heap: pages of the program that runs come to, stacks and small allocations of
 * threads (12.7 MiB were found), and pages of the heap that a collection has freed and the system has not got back yet.
 */
export const NATIVE_GROWTH_BYTES = 16 * 2 ** 20;

/** Host memory beside a GPU that everything which crosses the link goes through. */
export const PINNED_BYTES = 32 * 2 ** 20;

/**
 * Prompts that one engine computes for another take so much on their way, or as much as a prompt of so many tokens;
 * longer ones are computed where they are generated.
 */
export const MOVING_BYTES = 64 * 2 ** 20;
export const MOVING_TOKENS = 4096;

/** A message brings no more bytes of a prompt's pages than that, or one page. */
export const MOST_PAGES_BYTES = 4 * 2 ** 20;

/**
 * Copies of what goes round engines with a share of each layer: one that is here, two that go in turn, one that is
 * added up, and the next one that comes.
 */
const RING_COPIES = 5;

/** The whole model's heads. */
export type AllHeads = Pick<RowAttention, 'heads' | 'kvHeads' | 'headDim'>;

/** Queries, keys and values of a token in a layer, of all heads, in bytes. Pure. */
export function allHeadsBytes({ heads, kvHeads, headDim }: AllHeads): number {
  return 4 * (heads + 2 * kvHeads) * headDim;
}

/**
 * Bytes of a token that are on their way round engines with a share of each layer. A sum is as wide as hidden states;
 * where each engine attends to some rows (`allHeads`), what is exchanged is put together as wide as all heads, and each
 * token goes to the one engine that keeps it: never more than that, however many engines there are. Pure.
 */
export function ringTokenBytes(hiddenSize: number, allHeads?: AllHeads): number {
  return RING_COPIES * Math.max(4 * hiddenSize, allHeads ? allHeadsBytes(allHeads) : 0);
}
