import type { MachineFigure } from '../bindings/Profile.js';

/** A rate of what costs nothing. */
export const NO_COST = 1e15;
/**
 * Bytes of a token for a head of keys and values as attention is measured with them (native/profile/cachePages.h): 128
 * elements of 16 bits, both.
 */
const PAGE_BYTES_A_TOKEN = 2 * 128 * 2;

/**
 * Says what attention of a token takes for a head beside reading: the time of a page of keys and values that is not for
 * their bytes.
 */
export function rowHeads(
  short: MachineFigure | undefined,
  long: MachineFigure | undefined,
): { readonly rowHeadsPerSecond?: number } {
  if (!short || !long) return {};
  const seconds = 1 / short.perSecond - (short.tokens * PAGE_BYTES_A_TOKEN) / long.perSecond;
  return seconds > 0 ? { rowHeadsPerSecond: round(1 / seconds) } : {};
}

export function slowest(figures: readonly MachineFigure[]): MachineFigure | undefined {
  return figures.reduce<MachineFigure | undefined>(
    (worst, each) => (worst === undefined || each.perSecond < worst.perSecond ? each : worst),
    undefined,
  );
}

/** Four digits: more than any measurement is good for. */
export function round(value: number): number {
  return Number(value.toPrecision(4));
}
