import { expect, test } from '@jest/globals';
import { SplitPreTokenizer } from '../../src/model/tokenizer/huggingFace.js';
import * as patterns from '../../src/model/tokenizer/patterns.js';
import { isLinear } from '../../src/regex/isLinear.js';

/** As tokenizers' files are read: from Oniguruma's syntax. */
function read(source: string): string {
  const { pattern } = new SplitPreTokenizer({
    type: 'Split',
    pattern: { Regex: source },
    behavior: 'Isolated',
    invert: false,
  });
  return pattern?.source ?? '';
}

const KNOWN: Readonly<Record<string, string>> = {
  ...Object.fromEntries(
    Object.entries(patterns).filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
  ),
  cl100k: String.raw`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
  qwen35: String.raw`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
  deepseek:
    String.raw`[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_` +
    '`' +
    String.raw`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
  deepseekHan: '[一-龥぀-ゟ゠-ヿ]+',
  deepseekLlm: String.raw`\s?\p{L}+`,
  deepseekCoder: String.raw`\s?[!-/:-~！-／：-～‘-‟　-。]+`,
  bloom: ' ?[^(\\s|[.,!?…。，、।۔،])]+',
  lines: '[\r\n]',
  blanks: String.raw`\s+`,
  twoBlanks: ' {2,}',
  threeDigits: String.raw`\p{N}{1,3}`,
  words: '[\\w\u200c\u200d]+|[^\\w\u200c\u200d\\s]+',
};

/** Patterns of models that V8 may go through again and again: they are matched in steps. */
const STEPPED = new Set(['EXAONE_MOE', 'JAIS2', 'KIMI', 'LAST_BLANKS', 'THREES']);

test.each(Object.entries(KNOWN))(
  '%s is linear, unless it is one of those that are matched in steps',
  (name, source) => {
    expect(isLinear(read(source))).toBe(!STEPPED.has(name));
  },
);

test.each([
  ['(a+)+$'],
  ['a*a*b'],
  [String.raw`\s+$|.`],
  [String.raw`\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))`],
  [String.raw`\p{L}+(?=ing)`],
  [String.raw`(a)\1+`],
  [String.raw`\d+x|\d`],
  ['a'.repeat(70).repeat(70)],
  ['(?:(?:(?:a?){16}){16}){16}'],
  [String.raw`[A-Z]*[a-z]+|[A-Z]`],
  ['('],
])('%.40s is not said to be', (source) => {
  expect(isLinear(source)).toBe(false);
});
