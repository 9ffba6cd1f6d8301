import { MOST_PAGES_BYTES, MOVING_BYTES, MOVING_TOKENS } from '../../plan/reserves.js';

/** Pages of a prompt, from one on, that one message brings. */
export interface PageStretch {
  readonly first: number;
  readonly count: number;
}

/** The part of a cache that prompts on their way take at most. */
const MOVING_SHARE = 1 / 4;

/**
 * How many pages of an engine's cache are left to prompts that are computed and on their way, or here and without a
 * place: they take memory that is planned for. What rows get is a row as long as these may be, or the longest, at
 * least. Pure.
 */
export function movingPages({
  pages,
  pageTokens,
  pageBytes,
  contextTokens,
}: {
  readonly pages: number;
  readonly pageTokens: number;
  readonly pageBytes: number;
  readonly contextTokens: number;
}): number {
  const ofPrompt = Math.ceil(MOVING_TOKENS / pageTokens);
  const row = Math.min(ofPrompt, Math.ceil(contextTokens / pageTokens));
  const most = Math.max(ofPrompt, Math.floor(MOVING_BYTES / pageBytes));
  return Math.max(0, Math.min(most, Math.floor(pages * MOVING_SHARE), pages - row));
}

/** Memory that prompts on their way may take, and how that is given back: once. */
export interface MovingMemory {
  readonly bytes: number;
  readonly giveBack: () => void;
}

/**
 * The pages of a prompt that one engine computes for another: those of all tokens but the last, from which the next one
 * is sampled, message by message. Pure.
 */
export function pageStretches(
  promptTokens: number,
  { pageTokens, pageBytes }: { readonly pageTokens: number; readonly pageBytes: number },
): PageStretch[] {
  const pages = Math.ceil((promptTokens - 1) / pageTokens);
  const each = Math.max(1, Math.floor(MOST_PAGES_BYTES / pageBytes));
  const stretches: PageStretch[] = [];
  for (let first = 0; first < pages; first += each) stretches.push({ first, count: Math.min(each, pages - first) });
  return stretches;
}

/** Bytes of the pages of a prompt. Pure. */
export function bytesOfPrompt(
  promptTokens: number,
  { pageTokens, pageBytes }: { readonly pageTokens: number; readonly pageBytes: number },
): number {
  return Math.ceil((promptTokens - 1) / pageTokens) * pageBytes;
}
