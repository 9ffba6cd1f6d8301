import { describeValue } from '../files/describeValue.js';
import type { Fields } from './Fields.js';
import { LINEAR_PATTERNS } from './patterns.js';
import { SplitPreTokenizer } from './tokenizersLibrary.js';

/** A pattern of a tokenizer file: a literal, or a regular expression translated from Oniguruma's syntax to JavaScript's. */
export interface Pattern {
  /** With the flags `gu`; use it through a call that sets or ignores `lastIndex`. */
  readonly regex: RegExp;
  /** False for regular expressions that may take exponential time: run them under the watchdog. */
  readonly linear: boolean;
}

const LONGEST_PATTERN = 10_000;

/** @param value `{String}` or `{Regex}`, as tokenizer.json has it */
export function compilePattern(fields: Fields, field: string, value: unknown): Pattern {
  const pattern = fields.object(field, value);
  const literal = pattern.String;
  if (typeof literal === 'string') {
    if (literal === '') fields.refuse(field, 'an empty string', 'a pattern that matches something');
    return { regex: new RegExp(literal.replace(/[\\^$.*+?()[\]{}|/-]/g, (c) => `\\u{${(c.codePointAt(0) ?? 0).toString(16)}}`), 'gu'), linear: true };
  }
  const source = pattern.Regex;
  if (typeof source !== 'string') fields.refuse(field, describeValue(source ?? literal), 'a text under String or Regex');
  if (source.length > LONGEST_PATTERN) fields.refuse(field, `${source.length} characters`, `at most ${LONGEST_PATTERN}`);
  let regex: RegExp | null;
  try {
    regex = new SplitPreTokenizer({ type: 'Split', pattern: { Regex: source }, behavior: 'Isolated', invert: false }).pattern;
  } catch (error) {
    fields.refuse(field, describeValue(source), 'a regular expression that JavaScript can run', error);
  }
  if (regex === null) fields.refuse(field, describeValue(source), 'a regular expression');
  return { regex, linear: LINEAR_PATTERNS.has(source) };
}
