import type { Claimant } from './inTurn.js';

/** The places of which calls of a lower priority keep one. */
const PLACES_FOR_ONE = 16;
/** The share of the places they keep together, at most. */
const MOST_KEPT = 0.5;

const NONE: ReadonlySet<number> = new Set();

/**
 * The places that calls of each lower priority keep however many rows of higher ones want them: one in sixteen, and one
 * at least, so that no call waits for ever. Where there are too few places for all, those of the higher ones are kept.
 */
export class KeptPlaces {
  private readonly kept = new Map<number, number>();

  constructor(
    private readonly calls: Iterable<Claimant>,
    places: number,
  ) {
    const [, ...lower] = [...new Set(Array.from(calls, ({ priority }) => priority))].sort((a, b) => b - a);
    const each = Math.max(1, Math.floor(places / PLACES_FOR_ONE));
    const most = Math.floor((places * MOST_KEPT) / each);
    for (const priority of lower.slice(0, most)) this.kept.set(priority, each);
  }

  /** Priorities that have fewer places than they keep: their rows come before all others. */
  get owed(): ReadonlySet<number> {
    return this.prioritiesWith((running, kept) => running < kept);
  }

  /** Priorities that have no more than that: their rows give up their places to nobody. */
  get spent(): ReadonlySet<number> {
    return this.prioritiesWith((running, kept) => running <= kept);
  }

  private prioritiesWith(holds: (running: number, kept: number) => boolean): ReadonlySet<number> {
    if (this.kept.size === 0) return NONE;
    const running = new Map<number, number>();
    for (const call of this.calls) running.set(call.priority, (running.get(call.priority) ?? 0) + call.running);
    return new Set(
      Array.from(this.kept).flatMap(([each, kept]) => (holds(running.get(each) ?? 0, kept) ? [each] : [])),
    );
  }
}
