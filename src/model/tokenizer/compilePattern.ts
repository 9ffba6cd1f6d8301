import { isLinear } from '../../regex/isLinear.js';
import { Matcher } from '../../regex/Matcher.js';
import { foundInFile } from '../../arguments/found.js';
import type { Fields } from '../files/Fields.js';
import { TOKENIZER_LIMITS } from '../files/limits.js';
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
   * Matcher for patterns that V8 may take any time for: finds the same, by counted steps. Undefined where `regex` is to
   * be used.
   */
  readonly matcher?: Matcher | undefined;
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
  if (isLinear(regex.source)) return { field, regex };
  try {
    return { field, regex, matcher: new Matcher(regex.source, regex.flags.replace('g', '')) };
  } catch (error) {
    return fields.refuse(
      field,
      foundInFile(source),
      'a regular expression of which all repetitions can be written out',
      error,
    );
  }
}

function checkLength(fields: Fields, field: string, pattern: string): void {
  fields.atMost(field, pattern.length, TOKENIZER_LIMITS.patternUnits, 'UTF-16 units');
}
