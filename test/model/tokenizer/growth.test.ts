import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { checkGrowth, mostGrown, replaceMatches } from '../../../src/model/tokenizer/growth.js';
import { LimitError } from '../../../src/model/tokenizer/LimitError.js';

const pattern = (regex: RegExp): { field: string; regex: RegExp; linear: boolean } => ({ field: 'decoder.pattern', regex, linear: false });

test.each([['short texts', 10], ['texts whose result is counted', 300_000]])('replaces as JavaScript does, in %s', (_, size) => {
  const unit = fc.constantFrom('a', 'b', '😀', ' ');
  fc.assert(
    fc.property(fc.constantFrom(/a/gu, /a*/gu, /(?:)/gu, /(?=b)/gu, /[^a]+/gu, /😀|$/gu), fc.array(unit, { maxLength: 20 }), fc.constantFrom('', 'x', '$&'), (regex, parts, content) => {
      const text = `${parts.join('')}${'b'.repeat(size)}${parts.join('')}`;
      expect(replaceMatches(text, pattern(regex), content) === text.replace(regex, () => content)).toBe(true);
    }),
    { numRuns: size > 1000 ? 12 : 200 },
  );
});

test('what would grow beyond the bound is refused before it is there', () => {
  const text = 'ab'.repeat(500_000);
  expect(() => replaceMatches(text, pattern(/a/gu), 'x'.repeat(64))).toThrow(LimitError);
  expect(() => replaceMatches(text, pattern(/a/gu), 'x'.repeat(64))).toThrow(/^decoder.pattern: found a text that grows from 1000000 to \d+ UTF-16 units, expected at most 8194304$/);
  expect(replaceMatches(text, pattern(/a/gu), 'x'.repeat(8))).toHaveLength(4_500_000);
});

test('short texts may grow 64 times, long ones four times and a little', () => {
  expect(mostGrown(100)).toBe(64 * 164);
  expect(mostGrown(10_000_000)).toBe(44_194_304);
  expect(() => checkGrowth('normalizer', 100, 64 * 164)).not.toThrow();
  expect(() => checkGrowth('normalizer', 100, 64 * 164 + 1)).toThrow('normalizer: found a text that grows from 100 to 10497 UTF-16 units, expected at most 10496');
});
