/** Stretches that are kept apart: while a layer's weights come, those of all batches' pages may. */
const MOST_APART = 1024;

/**
 * For how long a queue was busy: tasks that were under way at once count once. They may come in any order; of one that
 * comes later than a thousand apart from one another what was before these is left out.
 */
export class BusyTime {
  /** Stretches begin and end here, in order, apart from one another. Numbers alone: there is one for each task. */
  private readonly starts: number[] = [];
  private readonly ends: number[] = [];
  private before = 0;
  private closed = -Infinity;

  get seconds(): number {
    return this.before + lengths(this.starts, this.ends);
  }

  add(from: number, end: number): void {
    const { starts, ends } = this;
    const start = Math.max(from, this.closed);
    if (end <= start) return;
    let place = ends.length;
    while (place > 0 && (ends[place - 1] ?? 0) >= start) place--;
    if (place === ends.length) {
      starts.push(start);
      ends.push(end);
    } else {
      let [past, first, last] = [place, start, end];
      for (; past < starts.length && (starts[past] ?? 0) <= end; past++) {
        first = Math.min(first, starts[past] ?? 0);
        last = Math.max(last, ends[past] ?? 0);
      }
      starts.splice(place, past - place, first);
      ends.splice(place, past - place, last);
    }
    // Many at once, so that tasks in order cost next to nothing.
    if (ends.length <= 2 * MOST_APART) return;
    const oldest = ends.splice(0, ends.length - MOST_APART);
    this.before += lengths(starts.splice(0, oldest.length), oldest);
    this.closed = oldest.at(-1) ?? this.closed;
  }
}

function lengths(starts: readonly number[], ends: readonly number[]): number {
  return ends.reduce((sum, end, at) => sum + end - (starts[at] ?? 0), 0);
}
