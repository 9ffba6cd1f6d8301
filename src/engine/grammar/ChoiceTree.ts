import type { Work } from '../../collections/drained.js';
import { sortedInParts } from '../../collections/sortedInParts.js';

/**
 * The tokens that choices have in common from the first one on: the choices from one place to another of the sorted
 * ones.
 */
export interface ChoiceBranch {
  readonly from: number;
  readonly to: number;
  /** Tokens that all of them begin with, as far as the branch is gone along. */
  readonly depth: number;
}

/** A choice as tokens. */
export interface ChoiceTokens {
  readonly text: string;
  readonly tokens: readonly number[];
}

/** As it stands among the others. */
export interface SortedChoice extends ChoiceTokens {
  /** With the token that ends it. */
  readonly whole: readonly number[];
  /** Which of the choices it is, as they were given. */
  readonly at: number;
}

/** Choices between two moments at which making a tree of them may stop. */
const SLICE = 1024;

/** Choices as a tree of their tokens. Immutable. */
export class ChoiceTree {
  /** Tokens of the longest, with the one that ends it. */
  readonly longest: number;
  readonly root: ChoiceBranch;
  /** In order of their tokens; of equal ones the one that was given first. */
  private readonly sorted: readonly SortedChoice[];
  private readonly first: readonly (readonly [token: number, branch: ChoiceBranch])[];

  private constructor(sorted: readonly SortedChoice[]) {
    this.sorted = sorted;
    this.longest = sorted.reduce((most, { whole }) => Math.max(most, whole.length), 0);
    this.root = { from: 0, to: sorted.length, depth: 0 };
    this.first = [...this.divided(this.root)];
  }

  /**
   * Made in slices: a row may bring a hundred thousand.
   * @param choices at least one
   * @param end the token that ends each; where there is none, each has tokens of its own
   */
  static *of(choices: readonly ChoiceTokens[], end?: number): Work<ChoiceTree> {
    const all: { readonly choice: SortedChoice; readonly words: Buffer }[] = [];
    for (const [at, choice] of choices.entries()) {
      const whole = end === undefined ? choice.tokens : [...choice.tokens, end];
      all.push({ choice: { ...choice, whole, at }, words: bigEndian(whole) });
      if (at % SLICE === SLICE - 1) yield;
    }
    const sorted = yield* sortedInParts(all, (a, b) => Buffer.compare(a.words, b.words));
    yield;
    return new ChoiceTree(sorted.map(({ choice }) => choice));
  }

  /** The token that comes next, and what goes on with it. */
  branches(branch: ChoiceBranch): readonly (readonly [token: number, branch: ChoiceBranch])[] {
    return branch === this.root ? this.first : [...this.divided(branch)];
  }

  /** Tokens that follow in all of its choices. */
  chain({ from, to, depth }: ChoiceBranch): readonly number[] {
    const [one, other] = [this.tokens(from), this.tokens(to - 1)];
    let end = depth;
    while (end < one.length && one[end] === other[end]) end++;
    return one.slice(depth, end);
  }

  /** The choice that ends there; of equal ones the first. */
  ended({ from, depth }: ChoiceBranch): SortedChoice | undefined {
    const choice = this.sorted[from];
    return choice?.whole.length === depth ? choice : undefined;
  }

  /** The choice of a branch that has one alone. */
  only({ from, to }: ChoiceBranch): SortedChoice | undefined {
    return to === from + 1 ? this.sorted[from] : undefined;
  }

  /** The tokens that lead there. */
  path({ from, depth }: ChoiceBranch): readonly number[] {
    return this.tokens(from).slice(0, depth);
  }

  private *divided({ from, to, depth }: ChoiceBranch): Generator<readonly [number, ChoiceBranch]> {
    let at = from;
    while (at < to && this.tokens(at).length === depth) at++;
    while (at < to) {
      const token = this.tokens(at)[depth] ?? 0;
      const end = this.endOf(token, at, to, depth);
      yield [token, { from: at, to: end, depth: depth + 1 }];
      at = end;
    }
  }

  /** After the last one from there on that has the token at that depth: in order, they stand together. */
  private endOf(token: number, from: number, to: number, depth: number): number {
    let [low, high] = [from + 1, to];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.tokens(middle)[depth] === token) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  private tokens(at: number): readonly number[] {
    return this.sorted[at]?.whole ?? [];
  }
}

/** Tokens as bytes that stand in the tokens' order: thousands of long ones are compared in no time. */
export function bigEndian(tokens: readonly number[]): Buffer {
  const bytes = Buffer.alloc(4 * tokens.length);
  tokens.forEach((token, at) => bytes.writeUInt32BE(token, 4 * at));
  return bytes;
}
