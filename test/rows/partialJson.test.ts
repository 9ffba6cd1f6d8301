import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { partialJson } from '../../src/index.js';
import { tries } from '../support/tries.js';
import { anyCharacter } from '../support/anyCharacter.js';

/** Whether a value is one that another may have grown from. */
function isBeginning(before: unknown, after: unknown): boolean {
  if (before === undefined) return true;
  if (typeof before === 'string') return typeof after === 'string' && after.startsWith(before);
  if (Array.isArray(before))
    return Array.isArray(after) && before.every((item, at) => at in after && isBeginning(item, after[at]));
  if (typeof before === 'object' && before !== null)
    return (
      typeof after === 'object' &&
      after !== null &&
      Object.keys(before).every((name, at) => Object.keys(after)[at] === name) &&
      Object.entries(before).every(([name, own]) =>
        isBeginning(own, Object.getOwnPropertyDescriptor(after, name)?.value),
      )
    );
  return Object.is(before, after);
}

const VALUE = fc.oneof(
  fc.jsonValue({ stringUnit: anyCharacter }),
  fc.dictionary(fc.constantFrom('a', '__proto__', '', '"'), fc.jsonValue(), { noNullPrototype: true }),
);

test('values of longer and longer beginnings only grow, up to the whole', () => {
  fc.assert(
    fc.property(VALUE, fc.constantFrom(undefined, 1), (value, indent) => {
      const text = JSON.stringify(value, null, indent);
      fc.pre(text.length < 300);
      let before: unknown;
      for (let end = 0; end <= text.length; end++) {
        const now = partialJson(text.slice(0, end));
        expect([text.slice(0, end), isBeginning(before, now)]).toEqual([text.slice(0, end), true]);
        before = now;
      }
      // What follows tells that a number is over.
      expect(partialJson(`${text} `)).toEqual(JSON.parse(text));
    }),
    { numRuns: tries(150, 20_000) },
  );
});

test.each<[string, unknown]>([
  ['', undefined],
  ['  ', undefined],
  ['{', {}],
  ['{"na', {}],
  ['{"name"', {}],
  ['{"name":', {}],
  ['{"name": "Kö', { name: 'Kö' }],
  ['{"name": "a\\', { name: 'a' }],
  ['{"name": "\\ud83d', { name: '' }],
  ['{"name": "\\ud83d\\ude0', { name: '' }],
  ['{"name": "\\ud83d\\ude00', { name: '😀' }],
  ['{"n": 12', {}],
  ['{"n": 12,', { n: 12 }],
  ['[1, 2', [1]],
  ['[1, 2.', [1]],
  ['[true, fal', [true]],
  ['[[], [nul', [[], []]],
  ['12', undefined],
  ['12 ', 12],
  ['nonsense', undefined],
  ['{"a": 1 "b": 2}', { a: 1 }],
  ['[1, }', [1]],
  ['{a: 1}', {}],
  ['"a\nb"', 'a'],
])('%j', (text, value) => {
  expect(partialJson(text)).toEqual(value);
});

test('what is very deep is read so far', () => {
  expect(JSON.stringify(partialJson('['.repeat(1e5)))).toBe('['.repeat(1000) + ']'.repeat(1000));
});

test('a text may be of any length', () => {
  const text = 'a'.repeat(2 ** 24);
  expect(partialJson(`{"a":"${text}`)).toEqual({ a: text });
  expect(partialJson(`["${'\\n'.repeat(2 ** 21)}`)).toEqual(['\n'.repeat(2 ** 21)]);
});
