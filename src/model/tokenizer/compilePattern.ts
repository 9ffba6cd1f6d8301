import { foundInFile } from '../../arguments/found.js';
import type { Fields } from '../files/Fields.js';
import { TOKENIZER_LIMITS } from '../files/limits.js';
import { LINEAR_PATTERNS } from './patterns.js';
import { SplitPreTokenizer } from './huggingFace.js';

/**
 * A pattern of a tokenizer file: a literal, or a regular expression translated from Oniguruma's syntax to JavaScript's.
 */
export interface Pattern {
  /** Where the file has it. */
  readonly field: string;
  /** With the flags `gu`; use it through a call that sets or ignores `lastIndex`. */
  readonly regex: RegExp;
  /**
   * Units of the shortest match. 0 for regular expressions of which nothing is known, which may take exponential time:
   * run them under the guard, and name the field to it.
   */
  readonly shortest: number;
}

/** Units that a replacement makes of one, at most; Infinity where nothing is known. */
export function replacementGrowth({ shortest }: Pattern, content: string): number {
  return shortest === 0 ? Infinity : content.length / shortest;
}

/** @param value `{String}` or `{Regex}`, as tokenizer.json has it */
export function compilePattern(fields: Fields, field: string, value: unknown): Pattern {
  const pattern = fields.object(field, value);
  const literal = pattern.String;
  if (typeof literal === 'string') {
    if (literal === '') fields.refuse(field, 'an empty string', 'a pattern that matches something');
    checkLength(fields, field, literal);
    return {
      field,
      regex: new RegExp(
        literal.replace(/[\\^$.*+?()[\]{}|/-]/g, (c) => `\\u{${(c.codePointAt(0) ?? 0).toString(16)}}`),
        'gu',
      ),
      shortest: literal.length,
    };
  }
  const source = pattern.Regex;
  if (typeof source !== 'string') fields.refuse(field, foundInFile(source ?? literal), 'a text under String or Regex');
  checkLength(fields, field, source);
  let regex: RegExp | null;
  try {
    regex = new SplitPreTokenizer({ type: 'Split', pattern: { Regex: source }, behavior: 'Isolated', invert: false })
      .pattern;
    // V8 compiles when it first runs: what is too large for it is found here.
    regex?.test('');
  } catch (error) {
    fields.refuse(field, foundInFile(source), 'a regular expression that JavaScript can run', error);
  }
  if (regex === null) fields.refuse(field, foundInFile(source), 'a regular expression');
  return { field, regex, shortest: LINEAR_PATTERNS.has(source) ? 1 : 0 };
}

function checkLength(fields: Fields, field: string, pattern: string): void {
  fields.atMost(field, pattern.length, TOKENIZER_LIMITS.patternUnits, 'UTF-16 units');
}
