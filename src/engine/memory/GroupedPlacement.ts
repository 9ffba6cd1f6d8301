import { plus, NO_PAGES, PAGE_TIERS, type PageCounts, type PageTier } from '../grid/pageCounts.js';
import type { CacheLaw } from '../grid/CacheLaw.js';
import type { PagePlacement, TierByTier } from './PagePlacement.js';

/** The rules that decide how many pages groups of layers keep of a row at once. */
export interface GroupRules {
  readonly laws: readonly CacheLaw[];
  readonly pageTokens: number;
  /** Most tokens of a row's prompt that are under way together. */
  readonly promptTokensUnderWay: number;
}

/**
 * The pages of a row whose layers are in several groups, or give pages back: each group has a page for the same
 * positions on the same tier, and keeps as many as its law says. What rows share is kept whole. Immutable.
 */
export class GroupedPlacement implements PagePlacement {
  readonly pages: PageCounts;

  /**
   * @param places of one group that keeps everything
   * @param promptPages those that the prompt begins
   * @param wholePages those, from the first, that every group keeps as long as the row lives
   */
  constructor(
    private readonly places: TierByTier,
    private readonly rules: GroupRules,
    private readonly promptPages: number,
    readonly wholePages = 0,
  ) {
    this.pages = rules.laws.reduce((sum, law) => plus(sum, this.most(law)), NO_PAGES);
  }

  get laws(): readonly CacheLaw[] {
    return this.rules.laws;
  }

  get length(): number {
    return this.places.length;
  }

  get inTable(): PageCounts {
    return this.places.pages;
  }

  tierOf(index: number): PageTier | 'tail' {
    return this.places.tierOf(index);
  }

  first(pages: number): PagePlacement {
    return new GroupedPlacement(this.places.first(pages), this.rules, pages, pages);
  }

  held(begun: number, inPrompt = false): PageCounts {
    const { places } = this;
    const whole = places.held(Math.min(begun, this.wholePages));
    const upTo = places.held(begun);
    return this.rules.laws.reduce((sum, law) => {
      const from = Math.min(begun, Math.max(this.wholePages, begun - this.mostOf(law, inPrompt)));
      return plus(plus(plus(sum, whole), upTo), places.held(from), -1);
    }, NO_PAGES);
  }

  without(firstPages: number): PagePlacement {
    if (firstPages === 0) return this;
    return this.of(this.places.without(firstPages), firstPages);
  }

  behind(sharedPages: number): PagePlacement {
    return new GroupedPlacement(
      this.places.behind(sharedPages),
      this.rules,
      this.promptPages,
      Math.max(this.wholePages, sharedPages),
    );
  }

  keeping(firstPages: number): PagePlacement {
    // Nothing that is on disk is kept for others.
    const { disk } = this.places.pages;
    const most = disk > 0 ? this.length - disk - 1 : this.length;
    const whole = Math.min(firstPages, most);
    return whole <= this.wholePages ? this : new GroupedPlacement(this.places, this.rules, this.promptPages, whole);
  }

  private of(places: TierByTier, firstPages: number): GroupedPlacement {
    return new GroupedPlacement(
      places,
      this.rules,
      Math.max(0, this.promptPages - firstPages),
      Math.max(0, this.wholePages - firstPages),
    );
  }

  private mostOf(law: CacheLaw, inPrompt: boolean): number {
    const { pageTokens, promptTokensUnderWay } = this.rules;
    return law.mostPages(inPrompt ? promptTokensUnderWay : pageTokens, pageTokens);
  }

  /** Most pages of a group at once, on each tier. */
  private most(law: CacheLaw): PageCounts {
    const { places, wholePages, promptPages } = this;
    const inPrompt = Math.min(promptPages - wholePages, this.mostOf(law, true));
    const most = Math.max(inPrompt, this.mostOf(law, false));
    const whole = places.held(Math.min(wholePages, this.length));
    const rest = plus(places.held(this.length), whole, -1);
    const moving = { ...NO_PAGES } as Record<PageTier, number>;
    for (const tier of PAGE_TIERS) moving[tier] = Math.min(rest[tier], most);
    return plus(whole, moving);
  }
}
