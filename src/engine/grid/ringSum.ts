/** Which of the engines of a ring that share each layer, and how many they are. */
export interface RingPlace {
  readonly index: number;
  readonly of: number;
}

/** The two ends of a ring, of one sum: what goes to the engine after, and what comes from the one before. */
export interface RingEnds {
  /** @param step counts from 0 */
  readonly send: (step: number, values: Float32Array) => void;
  /** @param length numbers that have to come */
  readonly receive: (step: number, length: number) => Promise<Float32Array>;
  /** A copy of what becomes the sum here while it is on its way. Default: in memory of its own. */
  readonly copy?: (values: Float32Array) => Float32Array;
  /** Told the numbers that came, went no further and have been added up: nobody looks at them any more. */
  readonly added?: (values: Float32Array) => void;
}

/**
 * The sum of what each engine of a ring has, the same bits in all of them: an all-reduce, as reduce-scatter and
 * all-gather. Columns are cut into as many stretches as there are engines. The sum of stretch s begins with engine s
 * and takes in the others as they follow in the ring, in float32; the engine that adds last hands it round. So the
 * order of each sum follows from its column, and from the number of engines alone. Two engines give each other all
 * that they have at once: of two numbers the order does not matter, and it is half the steps.
 *
 * Each engine sends `ringSumColumns` of each row, 2 (n - 1) / n of them (Pope et al. 2022, appendix A.1).
 *
 * @param values [rows, width], row-major: this engine's, which become the sum
 */
export async function ringSum(
  values: Float32Array,
  rows: number,
  { index, of }: RingPlace,
  { send, receive, copy = (each) => each.slice(), added }: RingEnds,
): Promise<Float32Array> {
  if (of === 2) {
    send(0, copy(values));
    const other = await receive(0, values.length);
    addTo(values, other);
    added?.(other);
    return values;
  }
  const width = values.length / rows;
  const stretch = (place: number): Stretch => stretchOf(width, of, place);
  let going = take(values, rows, stretch(index));
  for (let step = 0; step < of - 1; step++) {
    send(step, going);
    const next = stretch(index - step - 1);
    const sum = await receive(step, rows * next.count);
    addTo(sum, take(values, rows, next));
    going = sum;
  }
  put(values, rows, stretch(index + 1), going);
  for (let step = 0; step < of - 1; step++) {
    send(of - 1 + step, going);
    const next = stretch(index - step);
    going = await receive(of - 1 + step, rows * next.count);
    put(values, rows, next, going);
  }
  added?.(going);
  return values;
}

/** Numbers of a row that an engine sends for a sum. Pure. */
export function ringSumColumns(width: number, { index, of }: RingPlace): number {
  const count = (place: number): number => stretchOf(width, of, place).count;
  return 2 * width - count(index + 1) - count(index + 2);
}

/** Steps of a sum. Pure. */
export function ringSumSteps(of: number): number {
  return of === 2 ? 1 : 2 * (of - 1);
}

interface Stretch {
  readonly first: number;
  readonly count: number;
}

function stretchOf(width: number, of: number, place: number): Stretch {
  const at = ((place % of) + of) % of;
  const first = Math.floor((width * at) / of);
  return { first, count: Math.floor((width * (at + 1)) / of) - first };
}

/** Float32Arrays round as they are written: a sum of two of their numbers is float32's own. */
function addTo(to: Float32Array, values: Float32Array): void {
  for (let i = 0; i < to.length; i++) to[i] = (to[i] ?? 0) + (values[i] ?? 0);
}

function take(values: Float32Array, rows: number, { first, count }: Stretch): Float32Array {
  const width = values.length / rows;
  const taken = new Float32Array(rows * count);
  for (let row = 0; row < rows; row++) {
    const from = row * width + first;
    taken.set(values.subarray(from, from + count), row * count);
  }
  return taken;
}

function put(values: Float32Array, rows: number, { first, count }: Stretch, taken: Float32Array): void {
  const width = values.length / rows;
  for (let row = 0; row < rows; row++) values.set(taken.subarray(row * count, (row + 1) * count), row * width + first);
}
