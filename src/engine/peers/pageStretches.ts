/** Pages of a prompt, from one on, that one message brings. */
export interface PageStretch {
  readonly first: number;
  readonly count: number;
}

/** One message brings no more bytes than that, or one page. */
export const MOST_PAGES_BYTES = 4 * 2 ** 20;

/**
 * Bytes of prompts that are computed and on their way, or here and without a place, at most; or one prompt's. They are
 * beside what the engines' memory is planned for.
 */
export const MOST_MOVING_BYTES = 64 * 2 ** 20;

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
