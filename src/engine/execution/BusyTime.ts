/** Stretches that are kept apart: while a layer's weights come, those of all batches' pages may. */
const MOST_APART = 1024;

/**
 * For how long a queue was busy: tasks that were under way at once count once. They may come in any order; of one that
 * comes later than a thousand apart from one another what was before these is left out.
 */
export class BusyTime {
  /** In order, apart from one another. */
  private readonly stretches: { start: number; end: number }[] = [];
  private before = 0;
  private closed = -Infinity;

  get seconds(): number {
    return this.stretches.reduce((sum, { start, end }) => sum + end - start, this.before);
  }

  add(from: number, end: number): void {
    const { stretches } = this;
    const start = Math.max(from, this.closed);
    if (end <= start) return;
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
    if (!oldest) return;
    this.before += oldest.end - oldest.start;
    this.closed = oldest.end;
  }
}
