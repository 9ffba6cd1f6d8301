import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { memberRanges } from '../../src/arguments/memberRanges.js';
import { tries } from '../support/tries.js';
import { anyCharacter } from '../support/anyCharacter.js';

test('the values of members are where they stand, of two of one name the last one', () => {
  const text = ' {"a": [1, {"a": 2}] ,"b\\"\\\\":"}, \\" ]" ,"c":-1.50e3,"a":null} ';
  const found = [...memberRanges(text)].map(([name, { from, to }]) => [name, text.slice(from, to)]);
  expect(found).toEqual([
    ['a', 'null'],
    ['b"\\', '"}, \\" ]"'],
    ['c', '-1.50e3'],
  ]);
  for (const none of ['{}', '[1,2]', '"a"', '7', '']) expect(memberRanges(none).size).toBe(0);
});

test('whatever the object, each value reads as it does within it', () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string({ unit: anyCharacter }), fc.jsonValue()), fc.nat(2), (object, blanks) => {
      const text = JSON.stringify(object, undefined, blanks);
      const found = [...memberRanges(text)].map(([name, { from, to }]) => [name, JSON.parse(text.slice(from, to))]);
      expect(found).toEqual(Object.entries(JSON.parse(text) as object));
    }),
    { numRuns: tries(100, 1000) },
  );
});

// One that goes back at each character would end in no lifetime.
test.each(['{"a', '{"a":"b', '{"a":"b\\', '{"a":"b\\"'])('%s, and so on without end, is gone through once', (begun) => {
  expect(memberRanges(`${begun}${'aaaa'.repeat(50_000)}`).size).toBe(0);
  expect(memberRanges(begun).size).toBe(0);
});
