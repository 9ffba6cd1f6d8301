import { CharacterTest } from './CharacterTest.js';
import { NumberSet } from './NumberSet.js';
import { Edge, Op, Program } from './Program.js';
import type { Steps } from './Steps.js';

export interface Match {
  readonly start: number;
  readonly end: number;
}

/** Steps between two moments at which work may stop. */
const SLICE = 2 ** 16;

/** Pairs of characters that are alike but for their case; bounded, as rows bring them. */
const MOST_ALIKE = 4096;

/** An alternative that has yet to be tried. */
interface Choice {
  readonly at: number;
  readonly position: number;
  readonly empty: number;
  /** States that were entered before it. */
  readonly entered: number;
  readonly groups: Int32Array | undefined;
}

/**
 * Finds what V8's RegExp finds (flag `u`), by counted steps. What failed from one place of the pattern at one place of
 * the text is not tried again: of patterns without references to groups the time is in proportion to the text, times
 * the pattern, whatever both are.
 */
export class Matcher {
  readonly #program: Program;
  readonly #alike = new Map<string, boolean>();

  /** @throws PatternTooLarge, and what the parser throws */
  constructor(source: string, flags = 'u') {
    this.#program = new Program(source, flags);
  }

  /** A text to find matches in, each of which takes steps from `steps`. */
  search(text: string, steps: Steps): Search {
    return new Search(this.#program, text, steps, this.#alike);
  }
}

/** One text, with all that is known of it. */
class Search {
  readonly #failed = new NumberSet();
  /** Successes of lookarounds alone, as it does not matter how they succeed. */
  readonly #succeeded = new NumberSet();
  readonly #mask: number;
  #groups: Int32Array;
  #start = 0;
  #sinceStop = 0;

  constructor(
    private readonly program: Program,
    private readonly text: string,
    private readonly steps: Steps,
    private readonly alike: Map<string, boolean>,
  ) {
    this.#mask = 2 ** program.bits - 1;
    this.#groups = new Int32Array(2 * program.groups).fill(-1);
  }

  /** The first match that begins at `from` or later; now and then it stops on the way. @throws StepLimit */
  *find(from: number): Generator<void, Match | undefined, void> {
    const end = yield* this.#run(0, from, false);
    return end < 0 ? undefined : { start: this.#start, end };
  }

  /** @param look whether it is a lookaround, at `position` alone @returns where the match ends; -1 for none */
  *#run(begin: number, from: number, look: boolean): Generator<void, number> {
    const { text, program } = this;
    const { ops, a, b, sets } = program;
    const memo = !program.keepsGroups;
    const mask = this.#mask;
    const places = text.length + 1;
    const choices: Choice[] = [];
    const entered: number[] = [];
    let [at, position, empty, taken] = [begin, from, mask, 0];
    if (!look) [this.#start, this.#groups] = [from, this.#groups.fill(-1)];
    for (;;) {
      taken += 1;
      if (taken + this.#sinceStop >= SLICE) {
        this.steps.take(taken);
        taken = this.#sinceStop = 0;
        yield;
      }
      const [x, y] = [a[at] ?? 0, b[at] ?? 0];
      let fine = true;
      switch (ops[at]) {
        case Op.Read: {
          const code = y === 0 ? text.codePointAt(position) : codeBefore(text, position);
          fine = code !== undefined && sets[x]?.has(code) === true;
          if (!fine || code === undefined) break;
          position += (y === 0 ? 1 : -1) * (code > 0xffff ? 2 : 1);
          empty = mask;
          at += 1;
          break;
        }
        case Op.Split: {
          let depth = 0;
          if (memo) {
            const key = (at * (mask + 1) + empty) * places + position;
            if (this.#failed.has(key)) {
              fine = false;
              break;
            }
            if (look && this.#succeeded.has(key)) {
              this.#spend(taken);
              for (const state of entered) this.#succeeded.add(state);
              return position;
            }
            depth = entered.push(key);
          }
          choices.push({ at: y, position, empty, entered: depth, groups: memo ? undefined : this.#groups.slice() });
          at = x;
          break;
        }
        case Op.Jump:
          at = x;
          break;
        case Op.Match:
          this.#spend(taken);
          if (look) for (const state of entered) this.#succeeded.add(state);
          return position;
        case Op.Edge:
          fine = this.#isEdge(x, position);
          at += 1;
          break;
        case Op.Peek: {
          const code = (y & 1) === 0 ? text.codePointAt(position) : codeBefore(text, position);
          fine = (code !== undefined && sets[x]?.has(code) === true) === ((y & 2) === 0);
          at += 1;
          break;
        }
        case Op.Look: {
          this.#spend(taken);
          taken = 0;
          fine = yield* this.#look(x, position, memo);
          at += 1;
          break;
        }
        case Op.Begin:
          empty &= ~(1 << x);
          at += 1;
          break;
        case Op.Progress:
          fine = (empty & (1 << x)) !== 0;
          at += 1;
          break;
        case Op.Leave:
          empty |= 1 << x;
          at += 1;
          break;
        case Op.Save:
          this.#groups[x] = position;
          at += 1;
          break;
        case Op.Forget:
          this.#groups.fill(-1, 2 * x, 2 * y);
          at += 1;
          break;
        default: {
          const read = this.#readReference(x, position, y !== 0);
          taken += Math.abs(read ?? 0);
          fine = read !== undefined;
          if (read !== undefined && read !== 0) [position, empty] = [position + read, mask];
          at += 1;
        }
      }
      if (fine) continue;
      const choice = choices.pop();
      if (choice === undefined) {
        for (const state of entered) this.#failed.add(state);
        this.#spend(taken);
        taken = 0;
        if (look || this.#start >= text.length) return -1;
        entered.length = 0;
        this.#start += width(text, this.#start);
        [at, position, empty] = [begin, this.#start, mask];
        this.#groups.fill(-1);
        continue;
      }
      // All that could come of what was entered after it has been tried.
      for (let last = entered.length; last > choice.entered; last--) this.#failed.add(entered.pop() ?? 0);
      ({ at, position, empty } = choice);
      if (choice.groups) this.#groups = choice.groups;
    }
  }

  #spend(taken: number): void {
    this.steps.take(taken);
    this.#sinceStop += taken;
  }

  *#look(which: number, position: number, memo: boolean): Generator<void, boolean> {
    const { start, negate } = this.program.lookarounds[which] ?? { start: 0, negate: false };
    if (!memo) {
      const before = this.#groups.slice();
      const found = (yield* this.#run(start, position, true)) >= 0;
      // What a lookaround has in its groups stays, unless it was not to be found.
      if (negate || !found) this.#groups = before;
      return found !== negate;
    }
    const key = (start * (this.#mask + 1) + this.#mask) * (this.text.length + 1) + position;
    if (this.#succeeded.has(key)) return !negate;
    if (this.#failed.has(key)) return negate;
    const found = (yield* this.#run(start, position, true)) >= 0;
    (found ? this.#succeeded : this.#failed).add(key);
    return found !== negate;
  }

  #isEdge(edge: number, position: number): boolean {
    const { text } = this;
    switch (edge) {
      case Edge.start:
        return position === 0;
      case Edge.end:
        return position === text.length;
      case Edge.lineStart:
        return position === 0 || isLineEnd(text.charCodeAt(position - 1));
      case Edge.lineEnd:
        return position === text.length || isLineEnd(text.charCodeAt(position));
      default: {
        const [before, after] = [codeBefore(text, position), text.codePointAt(position)];
        const { word } = this.program;
        const apart = (before !== undefined && word.has(before)) !== (after !== undefined && word.has(after));
        return apart === (edge === Edge.word);
      }
    }
  }

  /** Units of what a group has, where the text goes on with it; below 0 on the way to the beginning. */
  #readReference(reference: number, position: number, backwards: boolean): number | undefined {
    const { groups, ignoreCase } = this.program.references[reference] ?? { groups: [], ignoreCase: false };
    for (const group of groups) {
      const [start = -1, end = -1] = [this.#groups[2 * group], this.#groups[2 * group + 1]];
      if (start < 0 || end < 0) continue;
      const units = end - start;
      const at = backwards ? position - units : position;
      if (at < 0 || at + units > this.text.length) return undefined;
      const [held, there] = [this.text.slice(start, end), this.text.slice(at, at + units)];
      const same = held === there || (ignoreCase && this.#areAlike(held, there));
      return same ? (backwards ? -units : units) : undefined;
    }
    return 0;
  }

  #areAlike(one: string, other: string): boolean {
    const [characters, others] = [Array.from(one), Array.from(other)];
    return (
      characters.length === others.length &&
      characters.every((character, i) => character === others[i] || this.#alikePair(character, others[i] ?? ''))
    );
  }

  #alikePair(one: string, other: string): boolean {
    const key = `${one} ${other}`;
    const known = this.alike.get(key);
    if (known !== undefined) return known;
    const code = (one.codePointAt(0) ?? 0).toString(16);
    const alike = new CharacterTest(`\\u{${code}}`, 'iu').has(other.codePointAt(0) ?? 0);
    if (this.alike.size >= MOST_ALIKE) this.alike.clear();
    this.alike.set(key, alike);
    return alike;
  }
}

export type { Search };

function isLineEnd(code: number): boolean {
  return code === 10 || code === 13 || code === 0x2028 || code === 0x2029;
}

/** Units of the character at a place of a text; 1 at its end. */
export function width(text: string, position: number): number {
  return (text.codePointAt(position) ?? 0) > 0xffff ? 2 : 1;
}

function codeBefore(text: string, position: number): number | undefined {
  if (position === 0) return undefined;
  const last = text.charCodeAt(position - 1);
  if (last < 0xdc00 || last > 0xdfff || position === 1) return last;
  const whole = text.codePointAt(position - 2) ?? 0;
  return whole > 0xffff ? whole : last;
}
