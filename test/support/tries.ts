/**
 * How often something random is tried: a few times for each change, many times at night, where
 * `scripts/nightly/tests.mjs` sets SPILLWAY_TRIES.
 */
export function tries(few: number, many: number): number {
  return process.env['SPILLWAY_TRIES'] === 'many' ? many : few;
}

/**
 * Pairs of what may stand together: by day each of both lists at least once, in turn; at night each of one with each of
 * the other. For what drawn cases put together, too.
 */
export function crossed<One, Other>(some: readonly One[], others: readonly Other[]): (readonly [One, Other])[] {
  const all = some.flatMap((one, at) => others.map((other, to) => ({ pair: [one, other] as const, at, to })));
  const most = Math.max(some.length, others.length);
  const inTurn = Array.from({ length: most }, (_, turn) => [turn % some.length, turn % others.length]);
  return all
    .filter(({ at, to }) => tries(0, 1) === 1 || inTurn.some(([first, second]) => first === at && second === to))
    .map(({ pair }) => pair);
}

/** By day the one of several whose turn it is, at night all. @param nth the number of the case that tries them */
export function inTurn<One>(all: readonly One[], nth: number): readonly One[] {
  return tries(0, 1) === 1 ? all : all.slice(nth % all.length, (nth % all.length) + 1);
}
