import { NO_PAGES, PAGE_TIERS, type PageTier, type PageCounts } from '../grid/pageCounts.js';
import { pageSweeps } from '../../plan/model/paced.js';
import type { PagePlacement, RowLengths } from './PagePlacement.js';

/**
 * Spreads admissions over time where memory is what limits them. Rows that come in together peak together, and then as
 * many fit as if all were at their longest; rows that come in one after another share memory at their average (FlexGen,
 * appendix A.2: the diagonal schedule). A row uses so many pages for so many sweeps; the pool has its size to give each
 * sweep; nobody comes in faster than that.
 */
export class AdmissionPace {
  /** Pages times sweeps that were admitted and have not been given yet. */
  private readonly debt: Record<PageTier, number> = { ...NO_PAGES };

  constructor(
    private readonly capacity: PageCounts,
    private readonly pageTokens: number,
  ) {}

  /** A sweep has gone by. @param share of the rows that it has advanced */
  advance(share = 1): void {
    for (const tier of PAGE_TIERS) this.debt[tier] = Math.max(0, this.debt[tier] - share * this.capacity[tier]);
  }

  /** Tells whether it is time for a further row. */
  get open(): boolean {
    const { debt, capacity } = this;
    // Nobody waits for a tier of which nothing is used.
    return PAGE_TIERS.every((tier) => debt[tier] === 0 || debt[tier] < capacity[tier]);
  }

  admitted(lengths: RowLengths, placement: PagePlacement): void {
    this.change(lengths, placement, 1);
  }

  /** A row ended when it had been computed up to position `next`: what it has not used is given back. */
  ended(lengths: RowLengths, placement: PagePlacement, next: number): void {
    const { promptTokens, positions } = lengths;
    const left = (positions - Math.max(next, promptTokens)) / Math.max(1, positions - promptTokens);
    this.change(lengths, placement, -Math.min(1, Math.max(0, left)));
  }

  private change(lengths: RowLengths, placement: PagePlacement, times: number): void {
    const uses = pageSweepsOf(lengths, placement, this.pageTokens);
    for (const tier of PAGE_TIERS) this.debt[tier] = Math.max(0, this.debt[tier] + times * uses[tier]);
  }
}

/** Pages that a row uses, times the sweeps for which it does. Pure. */
export function pageSweepsOf(
  { promptTokens, positions }: RowLengths,
  placement: PagePlacement,
  pageTokens: number,
): PageCounts {
  const first = placement.held(Math.max(1, Math.ceil(Math.min(promptTokens, positions) / pageTokens)));
  const last = placement.held(placement.length);
  const decoded = Math.max(0, positions - promptTokens);
  const uses = (tier: PageTier): number => pageSweeps(first[tier], last[tier], decoded);
  return { gpu: uses('gpu'), memory: uses('memory'), disk: uses('disk') };
}
