import { RegExpParser, visitRegExpAST, type AST } from '@eslint-community/regexpp';
import { SCHEMA_LIMITS } from './limits.js';

/** Any text. */
const ANYTHING = '[\\u{0}-\\u{10FFFF}]*';

/** Why a pattern cannot be enforced. */
export class PatternProblem extends Error {}

const parser = new RegExpParser({ ecmaVersion: 2024 });

/**
 * Characters by the letter of their escape, as ECMAScript has them; other dialects count more or fewer as digits,
 * letters and spaces.
 */
const CLASSES: Readonly<Record<string, string>> = {
  digit: '0-9',
  word: '0-9A-Za-z_',
  space:
    '\\u{9}-\\u{d}\\u{20}\\u{a0}\\u{1680}\\u{2000}-\\u{200a}\\u{2028}\\u{2029}\\u{202f}\\u{205f}\\u{3000}\\u{feff}',
};

/**
 * A pattern of JSON Schema, which is ECMAScript's and is searched for, as one that the whole text matches, in what
 * ECMAScript and the grammar's engine understand alike.
 * @throws PatternProblem for what is no regular language, or no regular expression
 */
export function translated(pattern: string): string {
  checkLength(pattern);
  return `^(?:${whole(parsed(pattern).alternatives)})$`;
}

/**
 * A pattern of JSON Schema as a source of a `RegExp` with the flag `u`, to search texts with: also one of no regular
 * language. @throws PatternProblem for what is no regular expression
 */
export function searched(pattern: string): string {
  if (isEnforceable(pattern)) return translated(pattern);
  checkLength(pattern);
  const characters: AST.Character[] = [];
  let repeats = 1;
  visitRegExpAST(parsed(pattern), {
    onCharacterEnter: (node) => characters.push(node),
    onQuantifierEnter: (node) => {
      repeats *= timesOf(node);
      checkRepeats(node, repeats);
    },
    onQuantifierLeave: (node) => (repeats /= timesOf(node)),
  });
  let [source, at] = ['', 0];
  for (const { start, end, value } of characters) {
    source += `${pattern.slice(at, start)}${value >= 0xd800 && value <= 0xdfff ? pattern.slice(start, end) : character(value)}`;
    at = end;
  }
  source += pattern.slice(at);
  try {
    return new RegExp(source, 'u').source;
  } catch (error) {
    throw new PatternProblem(error instanceof Error ? error.message : 'it is no regular expression', { cause: error });
  }
}

function checkLength({ length }: string): void {
  if (length > SCHEMA_LIMITS.patternUnits)
    throw new PatternProblem(`found ${length} characters, expected at most ${SCHEMA_LIMITS.patternUnits}`);
}

function checkRepeats({ raw }: AST.Quantifier, times: number): void {
  if (times > SCHEMA_LIMITS.patternRepeats)
    throw new PatternProblem(
      `found ${raw.slice(-40)}, which repeats a part more than ${SCHEMA_LIMITS.patternRepeats} times, expected at most so many`,
    );
}

function timesOf({ min, max }: AST.Quantifier): number {
  return Math.max(1, Number.isFinite(max) ? max : min);
}

/** Tells whether a pattern can be translated. */
export function isEnforceable(pattern: string): boolean {
  try {
    translated(pattern);
    return true;
  } catch (error) {
    if (error instanceof PatternProblem) return false;
    throw error;
  }
}

/** A translated pattern, to try texts with. */
export function regexOf(source: string): RegExp {
  return new RegExp(source, 'u');
}

const UNICODE = /\\[pP]\{|\\u\{/;

function parsed(pattern: string): AST.Pattern {
  try {
    return parser.parsePattern(pattern, 0, pattern.length, { unicode: true });
  } catch (error) {
    try {
      // Without `u` these are letters and braces.
      if (UNICODE.test(pattern)) throw error;
      // Escapes of characters that need none, such as `\-`.
      return parser.parsePattern(pattern, 0, pattern.length, { unicode: false });
    } catch {
      throw new PatternProblem(error instanceof Error ? error.message : 'it is no regular expression', {
        cause: error,
      });
    }
  }
}

function whole(alternatives: readonly AST.Alternative[]): string {
  return alternatives.map(wholeAlternative).join('|');
}

/** Writes an alternative so that anything may stand at ends that it does not fix. */
function wholeAlternative({ elements }: AST.Alternative): string {
  const [only] = elements;
  if (elements.length === 1 && only !== undefined && isPlainGroup(only)) return whole(only.alternatives);
  const [starts, ends] = [isEdge(elements.at(0), 'start'), isEdge(elements.at(-1), 'end')];
  const inner = elements.slice(starts ? 1 : 0, ends && elements.length > (starts ? 1 : 0) ? -1 : undefined);
  return `${starts ? '' : ANYTHING}${sequence(inner)}${ends ? '' : ANYTHING}`;
}

function isPlainGroup(element: AST.Element): element is AST.Group | AST.CapturingGroup {
  return (element.type === 'Group' && !element.modifiers) || element.type === 'CapturingGroup';
}

function isEdge(element: AST.Element | undefined, kind: 'start' | 'end'): boolean {
  return element?.type === 'Assertion' && element.kind === kind;
}

function sequence(elements: readonly AST.Element[]): string {
  return elements.map((element) => piece(element, 1)).join('');
}

function piece(element: AST.Element, repeats: number): string {
  switch (element.type) {
    case 'Group':
    case 'CapturingGroup':
      if (element.type === 'Group' && element.modifiers)
        throw new PatternProblem(`found ${element.modifiers.raw}, modifiers, which cannot be enforced`);
      return `(?:${element.alternatives.map(({ elements }) => elements.map((one) => piece(one, repeats)).join('')).join('|')})`;
    case 'Quantifier': {
      const { min, max } = element;
      const times = repeats * timesOf(element);
      checkRepeats(element, times);
      return `${piece(element.element, times)}${quantifier(min, max)}`;
    }
    case 'Character':
      return character(element.value);
    case 'CharacterSet':
      return characterSet(element, false);
    case 'CharacterClass':
      return characterClass(element);
    case 'Assertion':
      throw new PatternProblem(
        `found ${element.raw.slice(0, 40)}, ${element.kind === 'start' || element.kind === 'end' ? 'an edge inside of the pattern' : 'an assertion'}, which cannot be enforced`,
      );
    default:
      throw new PatternProblem(`found ${element.raw.slice(0, 40)}, which cannot be enforced`);
  }
}

function quantifier(min: number, max: number): string {
  if (max === Infinity) return min === 0 ? '*' : min === 1 ? '+' : `{${min},}`;
  return min === 0 && max === 1 ? '?' : min === max ? `{${min}}` : `{${min},${max}}`;
}

function character(code: number): string {
  // Half of a character is no text.
  if (code >= 0xd800 && code <= 0xdfff)
    throw new PatternProblem('found half of a surrogate pair, expected whole characters');
  const text = String.fromCodePoint(code);
  return /^[0-9A-Za-z_]$/.test(text) ? text : `\\u{${code.toString(16)}}`;
}

function characterSet(set: AST.CharacterSet, inClass: boolean): string {
  if (set.kind === 'any') return '[^\\u{a}\\u{d}\\u{2028}\\u{2029}]';
  if (set.kind === 'property') return set.raw;
  const members = CLASSES[set.kind] ?? '';
  if (inClass && set.negate) throw new PatternProblem(`found ${set.raw} inside of brackets, which cannot be enforced`);
  return inClass ? members : `[${set.negate ? '^' : ''}${members}]`;
}

function characterClass({ elements, negate, raw }: AST.CharacterClass): string {
  if (elements.length === 0) {
    if (negate) return '[\\u{0}-\\u{10FFFF}]';
    throw new PatternProblem('found [], which nothing matches');
  }
  const members = elements.map((element) => {
    if (element.type === 'Character') return character(element.value);
    if (element.type === 'CharacterClassRange')
      return `${character(element.min.value)}-${character(element.max.value)}`;
    if (element.type === 'CharacterSet') return characterSet(element, true);
    throw new PatternProblem(`found ${raw.slice(0, 40)}, which cannot be enforced`);
  });
  return `[${negate ? '^' : ''}${members.join('')}]`;
}

const CLASS = /\[(\^?)((?:\\u\{[0-9a-f]+\}|\\[pPdDwWsS](?:\{[^}]*\})?|[^\]\\])*)\]/gi;

/**
 * A translated pattern without U+0000 in classes that have no quotes or no backslashes: where a class has every control
 * character the grammar's engine takes it for one that has these, too, and lets them through.
 */
export function quotable(pattern: string): string {
  return pattern.replace(CLASS, (whole, negated: string, members: string) => {
    const regex = regexOf(`^${whole}$`);
    if (!regex.test('\0') || (regex.test('"') && regex.test('\\'))) return whole;
    return negated ? `[^\\u{0}${members}]` : whole.replace('\\u{0}-', '\\u{1}-').replace('\\u{0}', '');
  });
}

/** A text as a part of a pattern. */
export function literal(text: string): string {
  return Array.from(text, (char) => character(char.codePointAt(0) ?? 0)).join('');
}

/** Texts that are none of these; undefined where a pattern of so many units does not say it. */
export function noneOf(texts: readonly string[]): string;
export function noneOf(texts: readonly string[], most: number): string | undefined;
export function noneOf(texts: readonly string[], most = Infinity): string | undefined {
  // Each place where texts part, or go on, has a character and brackets of its own.
  const left = { places: most / PLACE_UNITS };
  if (texts.some((text) => text.length / 2 > left.places)) return undefined;
  const written = besides(
    texts.map((text) => Array.from(text)),
    0,
    left,
  );
  return written === undefined || written.length + 6 > most ? undefined : `^(?:${written})$`;
}

/** Units that are written for one place of a text, at least. */
const PLACE_UNITS = '[^a](?:)'.length;

function besides(texts: readonly (readonly string[])[], at: number, left: { places: number }): string | undefined {
  if ((left.places -= 1) < 0) return undefined;
  const ends = texts.some((text) => text.length === at);
  const first = new Map<string, (readonly string[])[]>();
  for (const text of texts) {
    const char = text[at];
    if (char === undefined) continue;
    const alike = first.get(char);
    if (alike) alike.push(text);
    else first.set(char, [text]);
  }
  const followed: string[] = [];
  for (const [char, rest] of first) {
    const more = besides(rest, at + 1, left);
    if (more === undefined) return undefined;
    followed.push(`${literal(char)}(?:${more})`);
  }
  const other =
    first.size === 0 ? `[\\u{0}-\\u{10FFFF}]${ANYTHING}` : `[^${[...first.keys()].map(literal).join('')}]${ANYTHING}`;
  return [...(ends ? [] : ['']), ...followed, other].join('|');
}

/** Texts with so many characters. */
export function lengths(min: number, max: number | undefined): string {
  return `^[\\u{0}-\\u{10FFFF}]{${min},${max ?? ''}}$`;
}
