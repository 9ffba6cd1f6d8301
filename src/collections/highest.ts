/**
 * The highest whole number of a range that holds, by bisection: the lowest one does, and none does after one that does
 * not. Pure.
 */
export function highest(low: number, high: number, holds: (value: number) => boolean): number {
  let [least, most] = [low, high];
  while (least < most) {
    const middle = Math.ceil((least + most) / 2);
    if (holds(middle)) least = middle;
    else most = middle - 1;
  }
  return least;
}
