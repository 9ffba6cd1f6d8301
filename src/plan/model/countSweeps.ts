import { refillsAtOnce, slotsOf, tokensPerSquareOf, type BlockChoice } from '../Policy.js';
import type { Workload } from '../Workload.js';

/** The work that one square does, as far as time goes: averages over the squares of a class. */
export interface SquareLoad {
  /** Tokens of prompts, and rows that decode one token each. */
  readonly promptTokens: number;
  readonly decodeRows: number;
  /**
   * Keys that the decoding rows look at, and those that the prompts' tokens look at, summed: without those that all
   * rows share.
   */
  readonly decodeKeys: number;
  readonly promptKeys: number;
  /** Keys that rows share, summed over all tokens that look at them. */
  readonly sharedKeys: number;
  /** Rows for which the head samples. */
  readonly sampledRows: number;
  /** Tokens whose cache was there before, over all ranges: what a cache that lives elsewhere has to load. */
  readonly contextTokens: number;
}

type Load = { -readonly [Field in keyof SquareLoad]: number };

/** Sweeps that are alike. */
export interface SweepClass {
  readonly sweeps: number;
  /** Squares of one sweep and layer. */
  readonly squares: number;
  /** One square's load. */
  readonly load: SquareLoad;
  /** How often sweeps of another class come directly after these, by its index. */
  readonly next: ReadonlyMap<number, number>;
}

/** A class that is being counted. */
interface CountedClass {
  sweeps: number;
  squares: number;
  readonly load: Load;
  readonly next: Map<CountedClass, number>;
}

/** Blocks of a long run that are counted; what a further one adds is taken from the last of them. */
const BLOCKS_COUNTED = 3;
/**
 * A run of no more sweeps than about this is counted whole: how prompts fall into squares differs from block to
 * block.
 */
const SWEEPS_COUNTED = 512;

/**
 * Rows that are costed: all of the workload, or where it has no end a block of them, or several where a block has no
 * end either.
 */
export function rowsOf({ rows }: Workload, block: BlockChoice): number {
  return rows ?? slotsOf(block) * block.batchSize * (refillsAtOnce(block) ? BLOCKS_COUNTED : 1);
}

/**
 * Counts the sweeps of a workload as the block schedules make them (engine/schedules/blockSchedule): decoding rows
 * first, prompts in chunks in what is left of a square, freed places taken at once or when the block ends. Rows are
 * alike, so counts of them suffice: a millisecond a block, where asking the schedule itself for every row of 64 to 4096
 * takes 0.1 to 6 s, and a search has hundreds of blocks. A test holds both to the same counts. Pure.
 */
export function countSweeps(workload: Workload, block: BlockChoice): SweepClass[] {
  const slots = slotsOf(block);
  const places = slots * block.batchSize;
  const refill = refillsAtOnce(block);
  const rows = rowsOf(workload, block);
  const unit = refill ? rows : Math.min(rows, places);
  const classes = new Map<number, CountedClass>();
  const classOf = (load: SquareLoad, tokens: number): CountedClass => {
    // Alike are sweeps of about as many tokens; those with prompts and those without are kept apart.
    const key = Math.round(Math.log2(Math.max(1, tokens))) * (load.promptTokens > 0 ? 1 : -1);
    let sum = classes.get(key);
    if (!sum) classes.set(key, (sum = { sweeps: 0, squares: 0, load: emptyLoad(), next: new Map() }));
    return sum;
  };
  // What all rows begin with comes before the first of them.
  for (const load of prefixSweeps(workload, block)) {
    const sum = classOf(load, load.promptTokens);
    sum.sweeps++;
    sum.squares++;
    addLoad(sum.load, load, 1);
  }
  /** @returns the classes of the first and the last of these sweeps */
  const add = (count: number, weight: number): Record<'first' | 'last', CountedClass | undefined> => {
    if (count <= 0 || weight === 0) return { first: undefined, last: undefined };
    // Rows go to the emptiest slot, so slots differ by one row at most.
    const least = Math.floor(count / slots);
    const fuller = count - least * slots;
    const squares = [
      { of: sweepsOf(least + 1, workload, block, refill), slots: fuller },
      { of: sweepsOf(least, workload, block, refill), slots: slots - fuller },
    ];
    const sweeps = Math.max(...squares.map(({ of, slots: n }) => (n > 0 ? of.length : 0)));
    let first: CountedClass | undefined;
    let before: CountedClass | undefined;
    for (let i = 0; i < sweeps; i++) {
      let tokens = 0;
      const total = { squares: 0, load: emptyLoad() };
      for (const { of, slots: n } of squares) {
        const load = of[i];
        const size = load ? load.promptTokens + load.decodeRows : 0;
        // A slot that waits for a row has no square.
        if (load === undefined || n === 0 || size === 0) continue;
        total.squares += n;
        tokens = Math.max(tokens, size);
        addLoad(total.load, load, n);
      }
      // Slots are counted in step; where a pace parts their rows, those of some fall into the others' pauses.
      const sum = total.squares > 0 || !before ? classOf(total.load, tokens) : before;
      if (before) followed(before, sum, weight);
      first ??= sum;
      before = sum;
      sum.sweeps += weight;
      sum.squares += total.squares * weight;
      addLoad(sum.load, total.load, weight);
    }
    return { first, last: before };
  };
  if (refill) {
    // What a block more adds to a long run is the same for every further block.
    const blocks = Math.floor(unit / places);
    const further =
      blocks *
        (workload.newTokens +
          (workload.promptTokens - (workload.sharedPrefixTokens ?? 0)) / tokensPerSquareOf(block)) <=
      SWEEPS_COUNTED
        ? 0
        : Math.max(0, blocks - BLOCKS_COUNTED);
    add(unit - further * places, 1 + further);
    add(unit - (further + 1) * places, -further);
  } else {
    const blocks = Math.floor(rows / unit);
    const whole = add(unit, blocks);
    const rest = add(rows % unit, 1);
    if (whole.last && whole.first) followed(whole.last, whole.first, blocks - 1);
    if (whole.last && rest.first) followed(whole.last, rest.first, 1);
  }
  const counted = [...classes.values()].filter(({ sweeps, squares }) => sweeps > 0 && squares > 0);
  const indices = new Map(counted.map((each, index) => [each, index]));
  return counted.map(({ sweeps, squares, load: sum, next }) => {
    const load = emptyLoad();
    addLoad(load, sum, 1 / squares);
    const behind = [...next].flatMap(([each, times]): [number, number][] => {
      const index = indices.get(each);
      return index === undefined || times <= 0 ? [] : [[index, times]];
    });
    return { sweeps, squares: squares / sweeps, load, next: new Map(behind) };
  });
}

function followed(before: CountedClass, by: CountedClass, times: number): void {
  if (before !== by) before.next.set(by, (before.next.get(by) ?? 0) + times);
}

/** Two classes at most: the sweeps in which prompts ride, and the others; without what comes after which. */
export function mergeClasses(classes: readonly SweepClass[]): SweepClass[] {
  const merged = (of: readonly SweepClass[]): SweepClass[] => {
    const sweeps = of.reduce((sum, each) => sum + each.sweeps, 0);
    const squares = of.reduce((sum, each) => sum + each.sweeps * each.squares, 0);
    if (of.length === 0 || squares === 0) return [];
    const load = emptyLoad();
    for (const each of of) addLoad(load, each.load, (each.sweeps * each.squares) / squares);
    return [{ sweeps, squares: squares / sweeps, load, next: new Map() }];
  };
  return [
    ...merged(classes.filter(({ load }) => load.promptTokens > 0)),
    ...merged(classes.filter(({ load }) => load.promptTokens === 0)),
  ];
}

function emptyLoad(): Load {
  return {
    promptTokens: 0,
    decodeRows: 0,
    decodeKeys: 0,
    promptKeys: 0,
    sharedKeys: 0,
    sampledRows: 0,
    contextTokens: 0,
  };
}

/**
 * Field by field: sweeps are gone through by the thousand, and looking fields up by their names took half of the time
 * of a plan for long rows.
 */
function addLoad(sum: Load, load: SquareLoad, times: number): void {
  sum.promptTokens += load.promptTokens * times;
  sum.decodeRows += load.decodeRows * times;
  sum.decodeKeys += load.decodeKeys * times;
  sum.promptKeys += load.promptKeys * times;
  sum.sharedKeys += load.sharedKeys * times;
  sum.sampledRows += load.sampledRows * times;
  sum.contextTokens += load.contextTokens * times;
}

/** The squares that compute what all rows begin with: of one slot, a sweep each. No page of it is ever elsewhere. */
function prefixSweeps({ sharedPrefixTokens = 0 }: Workload, block: BlockChoice): Load[] {
  const capacity = Math.max(tokensPerSquareOf(block), block.batchSize);
  const sweeps: Load[] = [];
  for (let from = 0; from < sharedPrefixTokens; from += capacity) {
    const end = Math.min(sharedPrefixTokens, from + capacity);
    sweeps.push({ ...emptyLoad(), promptTokens: end - from, promptKeys: triangle(end) - triangle(from) });
  }
  return sweeps;
}

/** The squares of one slot for `count` rows, a sweep each. */
function sweepsOf(
  count: number,
  { promptTokens, newTokens: n, sharedPrefixTokens = 0, givenTokens = 0, admittedPerSweep = Infinity }: Workload,
  block: BlockChoice,
  refill: boolean,
): Load[] {
  const sweeps: Load[] = [];
  // A row begins after what all have in common, and what it brings.
  const s = promptTokens - sharedPrefixTokens - givenTokens;
  const capacity = Math.max(tokensPerSquareOf(block), block.batchSize);
  // Time goes by only while a row lives: one of them is always under way.
  const pace = Math.max(admittedPerSweep, 1 / (Math.ceil(s / capacity) + n - 1)) / slotsOf(block);
  // Rows that end at a sweep: how many, known when their prompt ends.
  const ends = new Map<number, number>();
  let waiting = count;
  let [queued, offset] = [0, 0]; // rows in place whose prompt is not done; tokens of the first one that are
  let [decoding, keys] = [0, 0]; // rows that decode, and the keys that they look at in the next sweep
  let free = block.batchSize;
  let due = Math.max(1, pace); // rows that the pace lets in by now
  let started = false;
  while (waiting > 0 || queued > 0 || decoding > 0) {
    if (refill || !started || (queued === 0 && decoding === 0)) {
      const come = Math.min(waiting, free, Math.floor(due));
      due += pace - come;
      waiting -= come;
      free -= come;
      queued += come;
      started = true;
    }
    const load = emptyLoad();
    load.decodeRows = decoding;
    load.decodeKeys = keys;
    load.contextTokens = keys - decoding;
    load.sampledRows = decoding;
    const taken = Math.min(capacity - decoding, queued * s - offset);
    let done = 0;
    if (taken > 0) {
      const end = offset + taken;
      done = Math.floor(end / s);
      load.promptTokens = taken;
      load.promptKeys = done * triangle(s) + triangle(end % s) - triangle(offset) + taken * givenTokens;
      load.contextTokens += offset + done * givenTokens;
      load.sampledRows += done;
      offset = end % s;
    }
    load.sharedKeys = (load.promptTokens + decoding) * sharedPrefixTokens;
    const sweep = sweeps.push(load) - 1;
    // Those that decoded look at one key more next time; those that end leave.
    const left = ends.get(sweep) ?? 0;
    ends.delete(sweep);
    keys += decoding - left * (givenTokens + s + n);
    decoding -= left;
    queued -= done;
    free += left;
    if (n === 1) free += done;
    else if (done > 0) {
      decoding += done;
      keys += done * (givenTokens + s + 1);
      ends.set(sweep + n - 1, done);
    }
  }
  return sweeps;
}

/** 1 + 2 + … + count */
function triangle(count: number): number {
  return (count * (count + 1)) / 2;
}
