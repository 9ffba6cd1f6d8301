/** Stretches that are kept apart: one that comes later than so many others is rare. */
const MOST_APART = 64;

/**
 * For how long a queue was busy: tasks that were under way at once count once. They may come in any order, as long as
 * none is much later than those beside it.
 */
export class BusyTime {
  /** In order, apart from one another. */
  private readonly stretches: { start: number; end: number }[] = [];
  private before = 0;

  get seconds(): number {
    return this.stretches.reduce((sum, { start, end }) => sum + end - start, this.before);
  }

  add(start: number, end: number): void {
    const { stretches } = this;
    let place = stretches.length;
    while (place > 0 && (stretches[place - 1]?.end ?? 0) >= start) place--;
    let past = place;
    const all = { start, end };
    for (let next; (next = stretches[past]) && next.start <= end; past++) {
      all.start = Math.min(all.start, next.start);
      all.end = Math.max(all.end, next.end);
    }
    stretches.splice(place, past - place, all);
    if (stretches.length <= MOST_APART) return;
    const [oldest] = stretches.splice(0, 1);
    if (oldest) this.before += oldest.end - oldest.start;
  }
}
