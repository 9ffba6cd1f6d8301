/**
 * Gives the points that no other one beats: by rising seconds, each costs less than all before it; of equals the first
 * one. Pure.
 * @param cost of a point, less is better, as of its seconds
 */
export function paretoFrontier<Point>(
  points: readonly Point[],
  seconds: (point: Point) => number,
  cost: (point: Point) => number,
): Point[] {
  let least = Infinity;
  return [...points]
    .sort((a, b) => seconds(a) - seconds(b) || cost(a) - cost(b))
    .filter((point) => cost(point) < least && (least = cost(point)) < Infinity);
}
