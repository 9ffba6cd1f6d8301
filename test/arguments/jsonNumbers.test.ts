import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { losesChoices, sameDecimal, withTextsOfNumbers } from '../../src/arguments/jsonNumbers.js';

test.each([
  ['{"a":1234567890123456789}', '{"a":"1234567890123456789"}'],
  ['[9007199254740993,-9007199254740993]', '["9007199254740993","-9007199254740993"]'],
  [
    '[9007199254740993.0,-9.007199254740993e15,90071992547409930E-1]',
    '["9007199254740993.0","-9.007199254740993e15","90071992547409930E-1"]',
  ],
  // Doubles as programs write them, with 16 and 17 digits or all of them.
  [
    '[6.02214076e23,1.234567890123456e+22,1.1529215046068470e+18,1.152921504606846976e18,123456789012345.678]',
    undefined,
  ],
  ['[9007199254740992.0,900719925474099.2e1,0.000000000000000000,-0.0e99]', undefined],
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

test('a number that programs write of a double is held', () => {
  fc.assert(
    fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (number) => {
      const json = `[${String(number)},${number.toPrecision(17)},${number.toExponential(16)}]`;
      expect(withTextsOfNumbers(json)).toBeUndefined();
    }),
  );
});

test('decimals are the same whatever way they are written', () => {
  fc.assert(
    fc.property(fc.bigInt(), fc.nat(9), fc.nat(9), (whole, shift, zeros) => {
      const digits = String(whole < 0n ? -whole : whole);
      const sign = whole < 0n ? '-' : '';
      const padded = digits.padStart(shift + 1, '0');
      const moved = `${sign}${padded.slice(0, padded.length - shift)}.${padded.slice(padded.length - shift)}${'0'.repeat(zeros + 1)}`;
      expect([moved, sameDecimal(`${moved}e${shift}`, String(whole))]).toEqual([moved, true]);
      expect([moved, sameDecimal(`${moved}e${shift}`, String(whole + 1n))]).toEqual([moved, false]);
    }),
  );
});

test('choices and bounds of a schema that lose digits are told', () => {
  const loses = (json: string): boolean => losesChoices(JSON.parse(json), JSON.parse(withTextsOfNumbers(json) ?? json));
  expect(loses('{"enum":[1234567890123456789]}')).toBe(true);
  expect(loses('{"properties":{"a":{"const":{"b":[12345678901234567890123]}}}}')).toBe(true);
  expect(loses('{"properties":{"const":{"maximum":9223372036854775807}}}')).toBe(false);
  expect(loses('{"enum":[9007199254740993.0]}')).toBe(true);
  expect(loses('{"const":9.007199254740993e15}')).toBe(true);
  for (const bound of ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf']) {
    expect([bound, loses(`{"items":{"${bound}":9007199254740993}}`)]).toEqual([bound, true]);
    expect([bound, loses(`{"properties":{"${bound}":{"${bound}":9007199254740992}}}`)]).toEqual([bound, false]);
  }
  // A property's name, and what lies beyond integers of 64 bits.
  expect(
    loses('{"properties":{"minimum":{"type":"null"}},"maximum":18446744073709551615,"minimum":-9223372036854775809}'),
  ).toBe(false);
  expect(loses('{"exclusiveMaximum":9223372036854775807}')).toBe(true);
  expect(loses('{"minimum":9223372036854775807}')).toBe(true);
  expect(loses('{"maximum":9223372036854775807,"enum":[1,"1234567890123456789"]}')).toBe(false);
});
