import { RegExpParser, type AST } from '@eslint-community/regexpp';
import { CharacterTest } from './CharacterTest.js';

/** A pattern that cannot be run by counted steps. */
export class PatternTooLarge extends Error {}

/** The operation of an instruction. `a` and `b` are its operands. */
export const Op = {
  /** Reads a character of set `a` on the way to the end, or, with `b`, to the beginning. */
  Read: 0,
  /** Goes on at `a`; where that fails, at `b`. */
  Split: 1,
  Jump: 2,
  Match: 3,
  /** An edge: `a` of `Edge`. */
  Edge: 4,
  /** A look at what goes before or comes after: `lookarounds[a]`. */
  Look: 5,
  /** A look at one character: set `a`; `b`: 1 for the one before, 2 for that it is not there. */
  Peek: 6,
  /** A repetition of what may be empty begins, has ended, is left: bit `a`. */
  Begin: 7,
  Progress: 8,
  Leave: 9,
  /** A place of a group, `a`. */
  Save: 10,
  /** Groups from `a` to before `b` are forgotten. */
  Forget: 11,
  /** The text of one of `references[a]`, with `b` on the way to the beginning. */
  Reference: 12,
} as const;

export const Edge = { start: 0, end: 1, word: 2, noWord: 3, lineStart: 4, lineEnd: 5 } as const;

export interface Lookaround {
  readonly start: number;
  readonly negate: boolean;
}

/** Instructions that a pattern may come to, as repetitions are written out. */
const MOST_INSTRUCTIONS = 100_000;
/** Repetitions of what may be empty, inside of one another. */
const MOST_EMPTY = 10;
/** A set keeps up to 64 KiB of answers. */
const MOST_SETS = 1024;

const parser = new RegExpParser({ ecmaVersion: 2025 });
const READABLE: ReadonlySet<string> = new Set(['Character', 'CharacterSet', 'CharacterClass']);

/** A pattern (ECMAScript, flag `u`) as instructions of a machine that goes back. */
export class Program {
  readonly ops: number[] = [];
  readonly a: number[] = [];
  readonly b: number[] = [];
  readonly sets: CharacterTest[] = [];
  readonly lookarounds: Lookaround[] = [];
  readonly references: { readonly groups: readonly number[]; readonly ignoreCase: boolean }[] = [];
  /** True where groups are kept: only where something refers to one. */
  readonly keepsGroups: boolean;
  readonly groups: number;
  /** Bits for repetitions of what may be empty. */
  bits = 0;
  readonly word: CharacterTest;
  readonly #groupOf = new Map<AST.CapturingGroup, number>();
  readonly #setOf = new Map<string, number>();
  readonly #minimum = new Map<AST.Element, number>();
  readonly #waiting: (() => void)[] = [];
  #flags: string;
  #backwards = false;
  #depth = 0;

  /** @throws PatternTooLarge, and what the parser throws */
  constructor(source: string, flags = 'u') {
    if (!flags.includes('u')) throw new PatternTooLarge(`found flags ${flags}, expected u among them`);
    this.#flags = ['i', 'm', 's', 'u'].filter((flag) => flags.includes(flag)).join('');
    const pattern = parser.parsePattern(source, 0, source.length, { unicode: true });
    let references = 0;
    const walk = (alternatives: readonly AST.Alternative[]): void => {
      for (const { elements } of alternatives)
        for (const element of elements) {
          const inner = element.type === 'Quantifier' ? element.element : element;
          if (inner.type === 'CapturingGroup') this.#groupOf.set(inner, this.#groupOf.size);
          if (inner.type === 'Backreference') references += 1;
          if ('alternatives' in inner) walk(inner.alternatives);
        }
    };
    walk(pattern.alternatives);
    this.keepsGroups = references > 0;
    this.groups = this.keepsGroups ? this.#groupOf.size : 0;
    this.word = new CharacterTest('\\w', this.#flags);
    this.#alternatives(pattern.alternatives);
    this.#emit(Op.Match);
    for (let next = this.#waiting.shift(); next !== undefined; next = this.#waiting.shift()) next();
  }

  #emit(op: number, a = 0, b = 0): number {
    if (this.ops.length >= MOST_INSTRUCTIONS)
      throw new PatternTooLarge(`found a pattern of more than ${MOST_INSTRUCTIONS} steps, its repetitions written out`);
    this.ops.push(op);
    this.a.push(a);
    return this.b.push(b) - 1;
  }

  #alternatives(alternatives: readonly AST.Alternative[]): void {
    const ends: number[] = [];
    alternatives.forEach(({ elements }, i) => {
      const last = i === alternatives.length - 1;
      const split = last ? -1 : this.#emit(Op.Split, this.ops.length + 1);
      for (const element of this.#backwards ? elements.toReversed() : elements) this.#element(element);
      if (last) return;
      ends.push(this.#emit(Op.Jump));
      this.b[split] = this.ops.length;
    });
    for (const end of ends) this.a[end] = this.ops.length;
  }

  #element(element: AST.Element): void {
    switch (element.type) {
      case 'Character':
      case 'CharacterSet':
      case 'CharacterClass':
        this.#emit(Op.Read, this.#set(element), Number(this.#backwards));
        return;
      case 'Group':
        this.#group(element);
        return;
      case 'CapturingGroup': {
        const group = this.keepsGroups ? this.#groupOf.get(element) : undefined;
        const [first, last] = this.#backwards ? [1, 0] : [0, 1];
        if (group !== undefined) this.#emit(Op.Save, 2 * group + first);
        this.#alternatives(element.alternatives);
        if (group !== undefined) this.#emit(Op.Save, 2 * group + last);
        return;
      }
      case 'Quantifier':
        this.#quantifier(element);
        return;
      case 'Backreference': {
        const resolved = Array.isArray(element.resolved) ? element.resolved : [element.resolved];
        const groups = resolved.map((group: AST.CapturingGroup) => this.#groupOf.get(group) ?? -1);
        const at = this.references.push({ groups, ignoreCase: this.#flags.includes('i') }) - 1;
        this.#emit(Op.Reference, at, Number(this.#backwards));
        return;
      }
      case 'Assertion':
        this.#assertion(element);
        return;
      default:
        throw new PatternTooLarge(`found ${element.raw.slice(0, 40)}, which only flag v has`);
    }
  }

  #group({ modifiers, alternatives }: AST.Group): void {
    const before = this.#flags;
    if (modifiers) {
      const { add, remove } = modifiers;
      const change = (name: string, has: 'ignoreCase' | 'multiline' | 'dotAll'): void => {
        if (add[has]) this.#flags = name + this.#flags.replace(name, '');
        if (remove?.[has] === true) this.#flags = this.#flags.replace(name, '');
      };
      change('i', 'ignoreCase');
      change('m', 'multiline');
      change('s', 'dotAll');
    }
    this.#alternatives(alternatives);
    this.#flags = before;
  }

  #quantifier(quantifier: AST.Quantifier): void {
    const { element, min, max, greedy } = quantifier;
    const groups = this.keepsGroups ? this.#groupsIn(element) : undefined;
    const body = (): void => {
      if (groups) this.#emit(Op.Forget, groups[0], groups[1]);
      this.#element(element);
    };
    for (let times = 0; times < min; times++) {
      const before = this.ops.length;
      body();
      // What is nothing, such as `(?:)`, may be repeated as often as one likes.
      if (this.ops.length === before) return;
    }
    if (max <= min) return;
    const empty = this.#least(element) === 0;
    const bit = empty ? this.#depth++ : -1;
    if (this.#depth > MOST_EMPTY)
      throw new PatternTooLarge(`found more than ${MOST_EMPTY} repetitions of what may be empty inside of one another`);
    this.bits = Math.max(this.bits, this.#depth);
    const leaving: number[] = [];
    const once = (): number => {
      const split = this.#emit(Op.Split);
      leaving.push(split);
      this[greedy ? 'a' : 'b'][split] = this.ops.length;
      if (empty) this.#emit(Op.Begin, bit);
      body();
      if (empty) this.#emit(Op.Progress, bit);
      return split;
    };
    if (max === Infinity) {
      const split = once();
      this.#emit(Op.Jump, split);
    } else for (let times = min; times < max; times++) once();
    for (const split of leaving) this[greedy ? 'b' : 'a'][split] = this.ops.length;
    if (!empty) return;
    this.#emit(Op.Leave, bit);
    this.#depth -= 1;
  }

  #assertion(assertion: AST.Assertion): void {
    switch (assertion.kind) {
      case 'start':
        this.#emit(Op.Edge, this.#flags.includes('m') ? Edge.lineStart : Edge.start);
        return;
      case 'end':
        this.#emit(Op.Edge, this.#flags.includes('m') ? Edge.lineEnd : Edge.end);
        return;
      case 'word':
        this.#emit(Op.Edge, assertion.negate ? Edge.noWord : Edge.word);
        return;
      default:
    }
    const behind = assertion.kind === 'lookbehind';
    const [only] = assertion.alternatives;
    const [single] = only?.elements ?? [];
    if (assertion.alternatives.length === 1 && only?.elements.length === 1 && single && READABLE.has(single.type)) {
      this.#emit(Op.Peek, this.#set(single), Number(behind) + 2 * Number(assertion.negate));
      return;
    }
    const at = this.lookarounds.length;
    this.lookarounds.push({ start: -1, negate: assertion.negate });
    this.#emit(Op.Look, at);
    const flags = this.#flags;
    this.#waiting.push(() => {
      this.#flags = flags;
      [this.#backwards, this.#depth] = [behind, 0];
      this.lookarounds[at] = { start: this.ops.length, negate: assertion.negate };
      this.#alternatives(assertion.alternatives);
      this.#emit(Op.Match);
    });
  }

  #set(element: AST.Element): number {
    const key = `${this.#flags} ${element.raw}`;
    const known = this.#setOf.get(key);
    if (known !== undefined) return known;
    if (this.sets.length >= MOST_SETS)
      throw new PatternTooLarge(`found more than ${MOST_SETS} different characters and sets of them`);
    const at = this.sets.push(new CharacterTest(element.raw, this.#flags)) - 1;
    this.#setOf.set(key, at);
    return at;
  }

  #groupsIn(element: AST.Element): readonly [number, number] | undefined {
    let [first, end] = [Infinity, 0];
    for (const [group, number] of this.#groupOf) {
      if (group.start < element.start || group.end > element.end) continue;
      [first, end] = [Math.min(first, number), Math.max(end, number + 1)];
    }
    return end === 0 ? undefined : [first, end];
  }

  /** The fewest characters that it reads. */
  #least(element: AST.Element): number {
    const known = this.#minimum.get(element);
    if (known !== undefined) return known;
    let least = 0;
    if (READABLE.has(element.type)) least = 1;
    else if (element.type === 'Quantifier') least = element.min === 0 ? 0 : this.#least(element.element);
    else if (element.type === 'Group' || element.type === 'CapturingGroup')
      least = Math.min(
        ...element.alternatives.map(({ elements }) => Math.max(0, ...elements.map((one) => this.#least(one)))),
      );
    this.#minimum.set(element, least);
    return least;
  }
}
