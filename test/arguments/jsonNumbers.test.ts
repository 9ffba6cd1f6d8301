import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import {
  losesChoices,
  plainCopy,
  readWithSpelling,
  sameDecimal,
  type SpelledNumber,
  withTextsOfNumbers,
} from '../../src/arguments/jsonNumbers.js';

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

describe('a copy of plain data', () => {
  test('is what JSON makes of it, whatever there is', () => {
    const odd = fc.constantFrom(undefined, NaN, -Infinity, -0, () => 1, Symbol('a'), new Date(0), new Map([[1, 2]]));
    const boxed = fc.constantFrom(Object(1), Object('a'), Object(false), { toJSON: (key: string) => [key] });
    fc.assert(
      fc.property(fc.object({ values: [fc.anything({ withBigInt: false }), odd, boxed] }), (value) => {
        expect(plainCopy(value)).toEqual(JSON.parse(JSON.stringify(value)));
      }),
    );
    expect(plainCopy([, 1])).toEqual([null, 1]);
    expect(Object.keys(plainCopy(JSON.parse('{"__proto__":1}')) as object)).toEqual(['__proto__']);
  });

  test('numbers keep how they are written', () => {
    const copy = plainCopy(readWithSpelling('{"a":[1.0,2]}')) as { a: readonly [SpelledNumber, number] };
    expect([copy.a[0].spelling, copy.a[1]]).toEqual(['1.0', 2]);
  });

  test('what is no JSON, leads to itself or is nested without end is none', () => {
    const round: unknown[] = [];
    round.push(round);
    const deep = JSON.parse(`${'['.repeat(2000)}${']'.repeat(2000)}`) as unknown;
    for (const value of [undefined, () => 1, 1n, [1n], round, deep]) expect(() => plainCopy(value)).toThrow();
  });
});
