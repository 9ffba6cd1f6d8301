import type { Work } from '../../collections/drained.js';
import { highest } from '../../collections/highest.js';

/**
 * Divides layers over stages so that the slowest one takes as little time as it can. Pure; made in slices of a stage.
 *
 * @param seconds that a stage takes with so many layers, which grows with them; undefined where it cannot hold them
 * @returns how many each stage gets, at least one; undefined where they do not hold all of them together
 */
export function* divideLayers(
  layers: number,
  stages: number,
  seconds: (stage: number, layers: number) => number | undefined,
): Work<number[] | undefined> {
  const most = layers - stages + 1;
  /** The most layers that a stage computes in a time; 0 where not even one. */
  const mostIn = (stage: number, bound: number): number =>
    highest(0, most, (count) => (seconds(stage, count) ?? Infinity) <= bound);
  const counts = function* (bound: number): Work<number[]> {
    const each: number[] = [];
    for (let stage = 0; stage < stages; stage++) {
      each.push(mostIn(stage, bound));
      yield;
    }
    return each;
  };
  const enough = (each: readonly number[]): boolean =>
    each.every((count) => count > 0) && each.reduce((sum, count) => sum + count, 0) >= layers;
  let found = yield* counts(Number.MAX_VALUE);
  if (!enough(found)) return undefined;
  let [low, high] = [0, Math.max(...found.map((count, stage) => seconds(stage, count) ?? 0))];
  for (let step = 0; step < STEPS && high - low > high * NEAR; step++) {
    const middle = (low + high) / 2;
    const each = yield* counts(middle);
    if (enough(each)) [found, high] = [each, middle];
    else low = middle;
  }
  // There is room for more of them: whoever is slowest has that many fewer.
  for (let spare = found.reduce((sum, count) => sum + count, 0) - layers; spare > 0; spare--) {
    const slowest = found.reduce(
      (slow, count, stage) =>
        count > 1 && (slow < 0 || (seconds(stage, count) ?? 0) > (seconds(slow, found[slow] ?? 0) ?? 0)) ? stage : slow,
      -1,
    );
    found[slowest] = (found[slowest] ?? 0) - 1;
  }
  return found;
}

/** Times that differ by less are the same. */
const NEAR = 0.005;
const STEPS = 60;
