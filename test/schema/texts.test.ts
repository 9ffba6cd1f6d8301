import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { lengths, regexOf, translated } from '../../src/schema/patterns.js';
import { drained } from '../../src/collections/drained.js';
import { Steps } from '../../src/regex/Steps.js';
import { textsOf as textsInParts } from '../../src/schema/texts.js';

const textsOf = (pattern: string, most: number): ReadonlySet<string> | undefined =>
  drained(textsInParts(pattern, most, new Steps(1e9)));

const LETTERS = ['a', 'b', '1'];
/** All texts of up to four letters, of which patterns below match no longer ones unless they match any number. */
const short = Array.from({ length: 5 }, (_, length) =>
  Array.from({ length: LETTERS.length ** length }, (_value, at) =>
    Array.from({ length }, (_letter, place) => LETTERS[Math.floor(at / LETTERS.length ** place) % LETTERS.length]).join(
      '',
    ),
  ),
).flat();
const pieces = fc
  .tuple(
    fc.constantFrom('a', 'b', '[ab]', '[a1]', '(a|b1)', '(?:a?|b)', '(?:)'),
    fc.constantFrom('', '', '?', '{2}', '{0,2}', '{0}'),
  )
  .map(([atom, times]) => atom + times);
const sequences = fc.array(pieces, { maxLength: 2 }).map((inner) => `^${inner.join('')}$`);
const patterns = fc.array(sequences, { minLength: 1, maxLength: 3 }).map((alternatives) => alternatives.join('|'));

describe('the texts of a pattern', () => {
  test('are those that it matches', () => {
    fc.assert(
      fc.property(patterns, (pattern) => {
        const texts = [...(textsOf(translated(pattern), 1000) ?? [])];
        const matching = short.filter((text) => regexOf(translated(pattern)).test(text));
        expect([pattern, texts.filter((text) => text.length <= 4).sort()]).toEqual([pattern, matching.sort()]);
        for (const text of texts) expect([pattern, text, new RegExp(pattern, 'u').test(text)]).toContain(true);
      }),
      { numRuns: 500 },
    );
  });

  test('are not told where there are more than are asked for', () => {
    fc.assert(
      fc.property(patterns, fc.nat(20), (pattern, most) => {
        const all = textsOf(translated(pattern), 1000);
        expect([pattern, textsOf(translated(pattern), most)]).toEqual([
          pattern,
          all !== undefined && all.size <= most ? all : undefined,
        ]);
      }),
      { numRuns: 500 },
    );
    for (const pattern of ['', 'a', '^a*$', '^(?:a|b)+$', '^\\w{3}$', '^[^a]$', '^[a-z]{9999}$', '^\\p{L}$'])
      expect([pattern, textsOf(translated(pattern), 512)]).toEqual([pattern, undefined]);
  });

  test.each<[string, readonly string[]]>([
    ['^(?:[^\\u{0}-\\u{10FFFF}])$', []],
    ['^(?:[^\\u{0}-\\u{10FFFF}]*)$', ['']],
    ['^(?:a[^\\u{0}-\\u{10FFFF}]|b)$', ['b']],
    ['^(?:(?:(?:)*)+)$', ['']],
    [lengths(0, 0), ['']],
    [translated('^[😀-😂]$'), ['😀', '😁', '😂']],
  ])('%s', (pattern, expected) => {
    expect([...(textsOf(pattern, 10) ?? ['many'])]).toEqual(expected);
  });
});
