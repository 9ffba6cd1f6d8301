/** Lists of stop strings whose automata are kept for the rows to come. */
const KEPT_LISTS = 64;

/**
 * The automaton of Aho and Corasick over the UTF-16 units of some strings: a state for each beginning of one, which
 * says
 * what of the text that has been read may still become one. Built when it is first asked, and shared by all who look
 * for
 * the same strings: some ten bytes a unit.
 *
 * States are numbered breadth first, and those that follow one state stand together, by their unit: no state needs a
 * table of its own.
 */
export class StopStrings {
  #states: States | undefined;

  /** @param strings empty ones are ignored */
  constructor(private readonly strings: readonly string[]) {}

  /** A state for what has been read with one unit more. @param state 0 at the beginning */
  next(state: number, unit: number): number {
    const states = (this.#states ??= statesOf(this.strings));
    for (let from = state; ; from = states.fallback[from] ?? 0) {
      const child = childOf(states, from, unit);
      if (child !== 0) return child;
      if (from === 0) return 0;
    }
  }

  /** How many units of what has been read may be the beginning of a string. */
  depthOf(state: number): number {
    return this.#states?.depth[state] ?? 0;
  }

  /** Length of the longest string that what has been read ends in; 0 if none. */
  foundAt(state: number): number {
    return this.#states?.found[state] ?? 0;
  }
}

/** Hands out the same automaton for the same strings, as long as they are among the last ones. */
export class StopLists {
  /** In order of use. */
  readonly #kept = new Map<string, StopStrings>();

  of(strings: readonly string[]): StopStrings {
    const key = JSON.stringify(strings);
    const stops = this.#kept.get(key) ?? new StopStrings(strings);
    this.#kept.delete(key);
    this.#kept.set(key, stops);
    const [oldest] = this.#kept.keys();
    if (this.#kept.size > KEPT_LISTS && oldest !== undefined) this.#kept.delete(oldest);
    return stops;
  }
}

type Numbers = Uint16Array | Uint32Array;

/** By state. */
interface States {
  /** The unit that leads to it. */
  readonly unit: Uint16Array;
  /** The first of the states that follow it; those of the next state begin where its own end. */
  readonly first: Numbers;
  readonly depth: Numbers;
  /** State of the longest proper suffix that is a beginning of a string. */
  readonly fallback: Numbers;
  readonly found: Numbers;
}

/** The state that follows with a unit; 0 if there is none. */
function childOf({ unit, first }: States, state: number, wanted: number): number {
  let low = first[state] ?? 0;
  const end = first[state + 1] ?? 0;
  for (let high = end; low < high;) {
    const middle = (low + high) >>> 1;
    if ((unit[middle] ?? 0) < wanted) low = middle + 1;
    else high = middle;
  }
  return low < end && unit[low] === wanted ? low : 0;
}

function statesOf(strings: readonly string[]): States {
  // In order, the strings that begin alike stand together: a state is a stretch of them.
  const sorted = strings.filter((text) => text !== '').sort(byUnits);
  const most = sorted.reduce((sum, { length }) => sum + length, 1);
  const numbers = (length: number): Numbers => (most < 2 ** 16 ? new Uint16Array(length) : new Uint32Array(length));
  const [unit, first] = [new Uint16Array(most), numbers(most + 1)];
  const states: States = { unit, first, depth: numbers(most), fallback: numbers(most), found: numbers(most) };
  const { depth, fallback, found } = states;
  const [from, to] = [new Uint32Array(most), new Uint32Array(most)];
  to[0] = sorted.length;
  let count = 1;
  for (let state = 0; state < count; state++) {
    const at = depth[state] ?? 0;
    first[state] = count;
    for (let text = from[state] ?? 0, end = to[state] ?? 0; text < end;) {
      const string = sorted[text] ?? '';
      // One that ends here stands before those that go on.
      if (string.length === at) {
        found[state] = at;
        text++;
        continue;
      }
      const leads = string.charCodeAt(at);
      let last = text;
      while (last < end && sorted[last]?.charCodeAt(at) === leads) last++;
      [unit[count], depth[count], from[count], to[count]] = [leads, at + 1, text, last];
      text = last;
      count++;
    }
  }
  first.fill(count, count);
  // Breadth first, so that a state's fallback is finished before it.
  for (let state = 0; state < count; state++) {
    if (found[state] === 0) found[state] = found[fallback[state] ?? 0] ?? 0;
    for (let child = first[state] ?? 0; state !== 0 && child < (first[state + 1] ?? 0); child++) {
      let suffix = state;
      do suffix = fallback[suffix] ?? 0;
      while (suffix !== 0 && childOf(states, suffix, unit[child] ?? 0) === 0);
      fallback[child] = childOf(states, suffix, unit[child] ?? 0);
    }
  }
  return states;
}

function byUnits(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
