import { type AST, RegExpParser } from '@eslint-community/regexpp';
import { regexOf } from './patterns.js';

const parser = new RegExpParser({ ecmaVersion: 2024 });
const LAST_CHARACTER = 0x10ffff;

/** Texts; undefined: more than were asked for. */
type Texts = ReadonlySet<string> | undefined;

/**
 * All texts that a translated pattern matches: none, if nothing does.
 * @returns undefined where there are more than `most`
 */
export function textsOf(pattern: string, most: number): Texts {
  const { alternatives } = parser.parsePattern(pattern, 0, pattern.length, { unicode: true });
  return new TextsOf(most).any(alternatives);
}

class TextsOf {
  readonly #classes = new Map<string, Texts>();

  constructor(private readonly most: number) {}

  any(alternatives: readonly AST.Alternative[]): Texts {
    const all = new Set<string>();
    for (const { elements } of alternatives) {
      const texts = this.#inARow(elements);
      if (texts === undefined) return undefined;
      for (const text of texts) all.add(text);
    }
    return this.#bounded(all);
  }

  #inARow(elements: readonly AST.Element[]): Texts {
    const parts = elements.map((element) => this.#of(element));
    // What never matches has none, whatever stands beside it.
    if (parts.some((part) => part?.size === 0)) return new Set();
    return parts.reduce<Texts>((before, part) => this.#followed(before, part), new Set(['']));
  }

  #followed(before: Texts, part: Texts): Texts {
    if (before === undefined || part === undefined) return undefined;
    const all = new Set<string>();
    for (const start of before) {
      for (const end of part) all.add(start + end);
      if (all.size > this.most) return undefined;
    }
    return all;
  }

  #of(element: AST.Element): Texts {
    switch (element.type) {
      case 'Group':
      case 'CapturingGroup':
        return this.any(element.alternatives);
      case 'Quantifier':
        return this.#repeated(this.#of(element.element), element.min, element.max);
      case 'Character':
        return this.#bounded(new Set([String.fromCodePoint(element.value)]));
      case 'CharacterSet':
      case 'CharacterClass': {
        if (!this.#classes.has(element.raw)) this.#classes.set(element.raw, this.#characters(element));
        return this.#classes.get(element.raw);
      }
      default:
        // Of assertions translated patterns have none but their edges.
        return new Set(['']);
    }
  }

  #repeated(part: Texts, min: number, max: number): Texts {
    if (max === 0) return new Set(['']);
    if (part === undefined) return undefined;
    let last: Texts = new Set(['']);
    for (let times = 0; times < min && last !== undefined && last.size > 0; times++) last = this.#followed(last, part);
    const all = new Set(last);
    for (let times = min; times < max && last !== undefined; times++) {
      last = this.#followed(last, part);
      const before = all.size;
      for (const text of last ?? []) all.add(text);
      if (all.size === before || all.size > this.most) break;
    }
    return last === undefined ? undefined : this.#bounded(all);
  }

  #characters(element: AST.CharacterSet | AST.CharacterClass): Texts {
    const regex = regexOf(`^${element.raw}$`);
    const found = new Set<string>();
    for (const [first, last] of rangesOf(element)) {
      for (let code = first; code <= last; code++) {
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
