import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { formatPattern } from '../../src/schema/formats.js';
import {
  isEnforceable,
  lengths,
  literal,
  noneOf,
  PatternProblem,
  regexOf,
  translated,
} from '../../src/schema/patterns.js';

const texts = fc.string({
  unit: fc.constantFrom('a', 'b', '1', '_', ' ', '-', '\n', '\u2028', 'é', '\u{1f600}', '\ufeff'),
  maxLength: 6,
});
const atoms = fc.constantFrom(
  'a',
  'b',
  '.',
  '\\d',
  '\\D',
  '\\w',
  '\\W',
  '\\s',
  '\\S',
  '[ab]',
  '[^a]',
  '[\\d_]',
  '[a-é]',
  '(a|b1)',
  '(?:ab)',
  'é',
  '\\u{1f600}',
  '\\-'.slice(1),
);
const pieces = fc
  .tuple(atoms, fc.constantFrom('', '', '*', '+', '?', '{2}', '{1,2}', '*?'))
  .map(([atom, times]) => atom + times);
const sequences = fc
  .tuple(fc.constantFrom('', '^'), fc.array(pieces, { maxLength: 3 }), fc.constantFrom('', '$'))
  .map(([start, inner, end]) => start + inner.join('') + end);
const patterns = fc.array(sequences, { minLength: 1, maxLength: 3 }).map((alternatives) => alternatives.join('|'));

describe('patterns', () => {
  test('mean the same when they are translated', () => {
    fc.assert(
      fc.property(patterns, texts, (pattern, text) => {
        expect([pattern, text, regexOf(translated(pattern)).test(text)]).toEqual([
          pattern,
          text,
          new RegExp(pattern, 'u').test(text),
        ]);
      }),
      { numRuns: 2000 },
    );
  });

  test.each(['(?=a)', 'a(?!b)', '(?<=a)b', '\\bword', '(a)\\1', 'a(^b)', '(', 'x{2,1}', '[]', '(a{200}){200}'])(
    '%s is refused',
    (pattern) => {
      expect(() => translated(pattern)).toThrow(PatternProblem);
    },
  );

  test('none of some texts is everything else', () => {
    fc.assert(
      fc.property(fc.array(texts, { maxLength: 4 }), texts, (list, text) => {
        expect(regexOf(noneOf(list)).test(text)).toBe(!list.includes(text));
        const short = noneOf(list, 60);
        if (noneOf(list).length <= 60) expect(short).toBe(noneOf(list));
        else expect(short).toBeUndefined();
      }),
    );
  });

  test('literals and lengths', () => {
    fc.assert(
      fc.property(texts, texts, (one, other) => {
        expect(regexOf(`^${literal(one)}$`).test(other)).toBe(one === other);
        expect(regexOf(lengths(2, 3)).test(one)).toBe([...one].length >= 2 && [...one].length <= 3);
      }),
    );
  });

  test.each([
    ['date', ['2024-02-29', '2000-02-29', '1999-12-31'], ['2023-02-29', '1900-02-29', '2024-04-31', '2024-1-1']],
    [
      'date-time',
      ['2024-02-29T23:59:59Z', '1990-01-01T00:00:00.5+01:00'],
      ['2024-02-29 23:59:59Z', '2024-02-29T24:00:00Z', '2024-02-29T23:59:59'],
    ],
    ['duration', ['P1D', 'PT5M', 'P1Y2M3DT4H5M6S', 'P2W'], ['P', 'PT', '1D', 'P1S']],
    ['email', ['a@b.ch', 'a.b-c+d@x-y.example.org'], ['a@b', '.a@b.ch', 'a@-b.ch', 'a b@c.de']],
    ['hostname', ['a', 'x-y.example'], ['-a', 'a..b', 'a_b']],
    ['ipv4', ['0.0.0.0', '255.249.10.1'], ['256.1.1.1', '1.1.1', '01.1.1.1']],
    [
      'ipv6',
      ['::', '::1', '1::', '1:2:3:4:5:6:7:8', '1::3:4', '1:2:3:4:5:6:7::'],
      ['1:2:3', '1::2::3', ':::', '12345::', '1:2:3:4:5:6:7:8:9', '1:2:3:4:5:6:7:8::'],
    ],
    ['uuid', ['01234567-89ab-CDEF-0123-456789abcdef'], ['0123456789abcdef0123456789abcdef']],
    ['uri', ['http://example.com/a?b=c#d', 'ftp://x'], ['example.com', 'http:// x', '//x']],
    ['time', ['23:59:59Z', '00:00:00.123-05:30'], ['23:59:60Z', '24:00:00Z', '12:00:00']],
    // Names with dots, which RFC 6570 has, are none to Ajv.
    ['uri-template', ['x/{a,b:3}', '{?q*}', '{%41}'], ['{a.b}', '{a', '{}']],
  ])('format %s', (name, good, bad) => {
    const format = regexOf(formatPattern(name) ?? '');
    for (const text of good) expect([text, format.test(text)]).toEqual([text, true]);
    for (const text of bad) expect([text, format.test(text)]).toEqual([text, false]);
  });
});

test('what only unicode mode understands is not read as letters where a needless escape keeps a pattern out of it', () => {
  expect([String.raw`^\p{L}+\-\d$`, String.raw`^\u{1F600}\-$`].map(isEnforceable)).toEqual([false, false]);
  expect([String.raw`^[a-z]+\-\d$`, String.raw`^\p{L}+-\d$`].map(isEnforceable)).toEqual([true, true]);
});
