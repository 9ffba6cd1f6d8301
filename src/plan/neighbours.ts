/** Measured points on both sides of a place. */
export interface Neighbours<Point> {
  /** The last point before the place; undefined where it is at or before the first one. */
  readonly low: Point | undefined;
  /** The first point at the place or beyond; undefined beyond the last one. */
  readonly high: Point | undefined;
  /** How far the place lies from `low` to `high`, by the logarithms; 0 where one of them is missing. */
  readonly part: number;
}

/**
 * Where a place lies among measured points, which may be in any order. Pure. @param at the place of a point, above 0
 */
export function neighbours<Point>(
  points: readonly Point[],
  at: (point: Point) => number,
  place: number,
): Neighbours<Point> {
  let low: Point | undefined;
  let high: Point | undefined;
  for (const point of points) {
    if (at(point) >= place) high = high === undefined || at(point) < at(high) ? point : high;
    else low = low === undefined || at(point) > at(low) ? point : low;
  }
  const part = low === undefined || high === undefined ? 0 : Math.log(place / at(low)) / Math.log(at(high) / at(low));
  return { low, high, part };
}
