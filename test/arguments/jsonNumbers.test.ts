import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { losesChoices, withTextsOfNumbers } from '../../src/arguments/jsonNumbers.js';

test.each([
  ['{"a":1234567890123456789}', '{"a":"1234567890123456789"}'],
  ['[9007199254740993,-9007199254740993]', '["9007199254740993","-9007199254740993"]'],
  ['{"a":1e400,"b":-1E+999}', '{"a":"1e400","b":"-1E+999"}'],
  // Held to the digit, or no number at all.
  ['{"a":9007199254740992,"b":1e20,"c":0.1234567890123456789}', undefined],
  ['{"a":"1234567890123456789","b\\"1234567890123456789":1}', undefined],
  ['{"a":100000000000000000000}', undefined],
])('%s', (json, expected) => {
  expect(withTextsOfNumbers(json)).toBe(expected);
});

test('whatever JSON there is: what is read of the changed text is the same but for numbers that were lost', () => {
  fc.assert(
    fc.property(fc.json(), (json) => {
      expect(withTextsOfNumbers(json)).toBeUndefined();
    }),
  );
  fc.assert(
    fc.property(fc.bigInt(), fc.string(), (whole, text) => {
      const json = `{${JSON.stringify(text)}:[${whole},${JSON.stringify(text)}]}`;
      const read = JSON.parse(withTextsOfNumbers(json) ?? json) as Record<string, [number | string, string]>;
      const [found, beside] = Object.values(read)[0] ?? [];
      expect([BigInt(found ?? 0), beside, Object.keys(read)]).toEqual([whole, text, [text]]);
    }),
  );
});

test('strings of megabytes, and backslashes before their ends', () => {
  const long = 'a\\"'.repeat(3e6);
  const json = JSON.stringify({ text: long, end: '\\\\', whole: 'X' }).replace('"X"', '12345678901234567890');
  const changed = withTextsOfNumbers(json) ?? '';
  expect(JSON.parse(changed)).toEqual({ text: long, end: '\\\\', whole: '12345678901234567890' });
});

test('choices of a schema that lose digits are told, bounds are not', () => {
  const loses = (json: string): boolean => losesChoices(JSON.parse(json), JSON.parse(withTextsOfNumbers(json) ?? json));
  expect(loses('{"enum":[1234567890123456789]}')).toBe(true);
  expect(loses('{"properties":{"a":{"const":{"b":[12345678901234567890123]}}}}')).toBe(true);
  expect(loses('{"properties":{"const":{"maximum":9223372036854775807}}}')).toBe(false);
  expect(loses('{"maximum":9223372036854775807,"enum":[1,"1234567890123456789"]}')).toBe(false);
});
