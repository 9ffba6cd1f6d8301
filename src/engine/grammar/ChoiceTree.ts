/** What choices have in common from the first token on: those from one place to another of the sorted ones. */
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

/** Choices as a tree of their tokens. Immutable. */
export class ChoiceTree {
  /** Tokens of the longest, with the one that ends it. */
  readonly longest: number;
  readonly root: ChoiceBranch;
  /** In order of their tokens; of equal ones the one that was given first. */
  private readonly sorted: readonly SortedChoice[];
  private readonly first: readonly (readonly [token: number, branch: ChoiceBranch])[];

  /**
   * @param choices at least one
   * @param end the token that ends each; where there is none, each has tokens of its own
   */
  constructor(choices: readonly ChoiceTokens[], end?: number) {
    const wholes = choices.map(({ tokens }) => (end === undefined ? tokens : [...tokens, end]));
    const words = wholes.map(bigEndian);
    const wordsOf = (at: number): Buffer => words[at] ?? Buffer.alloc(0);
    this.sorted = choices
      .map((choice, at) => ({ ...choice, whole: wholes[at] ?? [], at }))
      .sort((a, b) => Buffer.compare(wordsOf(a.at), wordsOf(b.at)) || a.at - b.at);
    this.longest = wholes.reduce((most, { length }) => Math.max(most, length), 0);
    this.root = { from: 0, to: choices.length, depth: 0 };
    this.first = [...this.divided(this.root)];
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

  /** Behind the last one from there on that has the token at that depth: in order, they stand together. */
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
