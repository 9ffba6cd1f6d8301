import { type AST, RegExpParser } from '@eslint-community/regexpp';
import type { Work } from '../collections/drained.js';
import type { Steps } from '../regex/Steps.js';
import { regexOf } from './patterns.js';

const parser = new RegExpParser({ ecmaVersion: 2024 });
const LAST_CHARACTER = 0x10ffff;
/** Characters that are looked at at a time. */
const SLICE = 2 ** 14;

/** Texts; undefined: more than were asked for. */
type Texts = ReadonlySet<string> | undefined;

/**
 * All texts that a translated pattern matches: none, if nothing does.
 * @returns undefined where there are more than `most`
 * @throws StepLimit
 */
export function* textsOf(pattern: string, most: number, steps: Steps): Work<Texts> {
  const { alternatives } = parser.parsePattern(pattern, 0, pattern.length, { unicode: true });
  return yield* new TextsOf(most, steps).any(alternatives);
}

class TextsOf {
  readonly #classes = new Map<string, Texts>();

  constructor(
    private readonly most: number,
    private readonly steps: Steps,
  ) {}

  *any(alternatives: readonly AST.Alternative[]): Work<Texts> {
    const all = new Set<string>();
    for (const { elements } of alternatives) {
      const texts = yield* this.#inARow(elements);
      if (texts === undefined) return undefined;
      for (const text of texts) all.add(text);
    }
    return this.#bounded(all);
  }

  *#inARow(elements: readonly AST.Element[]): Work<Texts> {
    const parts: Texts[] = [];
    for (const element of elements) parts.push(yield* this.#of(element));
    // What never matches has none, whatever stands beside it.
    if (parts.some((part) => part?.size === 0)) return new Set();
    let texts: Texts = new Set(['']);
    for (const part of parts) texts = yield* this.#followed(texts, part);
    return texts;
  }

  *#followed(before: Texts, part: Texts): Work<Texts> {
    if (before === undefined || part === undefined) return undefined;
    const all = new Set<string>();
    for (const start of before) {
      for (const end of part) {
        this.steps.take(start.length + end.length);
        all.add(start + end);
      }
      if (this.steps.due) yield;
      if (all.size > this.most) return undefined;
    }
    return all;
  }

  *#of(element: AST.Element): Work<Texts> {
    switch (element.type) {
      case 'Group':
      case 'CapturingGroup':
        return yield* this.any(element.alternatives);
      case 'Quantifier':
        return yield* this.#repeated(yield* this.#of(element.element), element.min, element.max);
      case 'Character':
        return this.#bounded(new Set([String.fromCodePoint(element.value)]));
      case 'CharacterSet':
      case 'CharacterClass': {
        if (!this.#classes.has(element.raw)) this.#classes.set(element.raw, yield* this.#characters(element));
        return this.#classes.get(element.raw);
      }
      default:
        // Of assertions translated patterns have none but their edges.
        return new Set(['']);
    }
  }

  *#repeated(part: Texts, min: number, max: number): Work<Texts> {
    if (max === 0) return new Set(['']);
    if (part === undefined) return undefined;
    let last: Texts = new Set(['']);
    for (let times = 0; times < min && last !== undefined && last.size > 0; times++)
      last = yield* this.#followed(last, part);
    const all = new Set(last);
    for (let times = min; times < max && last !== undefined; times++) {
      last = yield* this.#followed(last, part);
      const before = all.size;
      for (const text of last ?? []) all.add(text);
      if (all.size === before || all.size > this.most) break;
    }
    return last === undefined ? undefined : this.#bounded(all);
  }

  *#characters(element: AST.CharacterSet | AST.CharacterClass): Work<Texts> {
    const regex = regexOf(`^${element.raw}$`);
    const found = new Set<string>();
    for (const [first, last] of rangesOf(element)) {
      for (let code = first; code <= last; code++) {
        if (code % SLICE === 0) {
          this.steps.take(SLICE);
          if (this.steps.due) yield;
        }
        // Half of a character is no text.
        if (code >= 0xd800 && code <= 0xdfff) continue;
        const text = String.fromCodePoint(code);
        if (!regex.test(text)) continue;
        found.add(text);
        if (found.size > this.most) return undefined;
      }
    }
    return found;
  }

  #bounded(texts: ReadonlySet<string>): Texts {
    return texts.size > this.most ? undefined : texts;
  }
}

/** Where its characters lie. */
function rangesOf(element: AST.CharacterSet | AST.CharacterClass): readonly (readonly [number, number])[] {
  const everywhere = [[0, LAST_CHARACTER]] as const;
  if (element.type === 'CharacterSet' || element.negate) return everywhere;
  const ranges = element.elements.map((member) => {
    if (member.type === 'Character') return [member.value, member.value] as const;
    return member.type === 'CharacterClassRange' ? ([member.min.value, member.max.value] as const) : undefined;
  });
  return ranges.every((range) => range !== undefined) ? ranges : everywhere;
}
