import type { Work } from './drained.js';

/** Values that are sorted at once, and that are merged between two moments at which others may have their turn. */
const RUN = 2048;

/** Values in order, as `toSorted` has them: of such as compare alike the first one comes first. Made in slices. */
export function* sortedInParts<T>(values: readonly T[], compare: (a: T, b: T) => number): Work<readonly T[]> {
  let runs: (readonly T[])[] = [];
  for (let at = 0; at < values.length; at += RUN) {
    runs.push(values.slice(at, at + RUN).sort(compare));
    yield;
  }
  while (runs.length > 1) {
    const merged: (readonly T[])[] = [];
    for (let at = 0; at < runs.length; at += 2)
      merged.push(yield* mergedInParts(runs[at] ?? [], runs[at + 1] ?? [], compare));
    runs = merged;
  }
  return runs[0] ?? [];
}

function* mergedInParts<T>(a: readonly T[], b: readonly T[], compare: (a: T, b: T) => number): Work<readonly T[]> {
  const all: T[] = [];
  let [left, right] = [0, 0];
  while (left < a.length && right < b.length) {
    const [one, other] = [a[left] as T, b[right] as T];
    if (compare(one, other) <= 0) {
      all.push(one);
      left += 1;
    } else {
      all.push(other);
      right += 1;
    }
    if (all.length % RUN === 0) yield;
  }
  for (; left < a.length; left++) all.push(a[left] as T);
  for (; right < b.length; right++) all.push(b[right] as T);
  return all;
}
