import { describe, expect, test } from '@jest/globals';
import {
  checkBoolean,
  checkFunction,
  checkNumber,
  checkOneOf,
  checkSignal,
  checkText,
  checkWhole,
} from '../../src/arguments/checks.js';
import { UsageError } from '../../src/errors/UsageError.js';

describe('checks of single values', () => {
  test('pass what fits', () => {
    checkWhole('n', 3, 1, 4);
    checkOneOf('o', 'a', ['a', 'b']);
    checkFunction('f', undefined);
    checkFunction('f', () => 1);
    checkBoolean('b', false);
    checkSignal('s', new AbortController().signal);
    checkSignal('s', undefined);
    checkNumber('n', 0.5, { least: 0, most: 1 });
    checkText('t', '');
  });

  test.each<[() => void, string]>([
    [() => checkWhole('n', '2', 1, 4), 'n: found "2", expected a whole number from 1 to 4'],
    [() => checkWhole('n', NaN, 1), 'n: found NaN, expected a whole number of at least 1'],
    [
      () => checkWhole('n', 2 ** 53, 0),
      'n: found 9007199254740992, expected a whole number from 0 to 9007199254740991',
    ],
    [() => checkNumber('n', NaN, { least: 0, most: 1 }), 'n: found NaN, expected a number from 0 to 1'],
    [
      () => checkNumber('n', 2, { least: 0, above: true, most: 1 }),
      'n: found 2, expected a number above 0 and at most 1',
    ],
    [() => checkNumber('n', Infinity, { least: 0 }), 'n: found Infinity, expected a finite number of at least 0'],
    [() => checkText('t', 5), 't: found 5, expected a string'],
    [() => checkWhole('n', 5, 1, 4), 'n: found 5, expected a whole number from 1 to 4'],
    [() => checkOneOf('o', 'drop', ['a', 'b']), 'o: found "drop", expected one of a, b'],
    [() => checkFunction('f', 3), 'f: found 3, expected a function'],
    [() => checkBoolean('b', 'off'), 'b: found "off", expected true or false'],
    [() => checkSignal('s', 'abort'), 's: found "abort", expected an AbortSignal'],
    [() => checkSignal('s', { aborted: false }), 's: found an object with aborted, expected an AbortSignal'],
  ])('%# says what was found and what was expected', (check, message) => {
    expect(check).toThrow(message);
    expect(check).toThrow(UsageError);
  });
});

describe('checkNumber', () => {
  const check = (value: unknown) => () => checkNumber('n', value, { least: 0 });

  test('takes what is right, and nothing else', () => {
    expect(check(0)).not.toThrow();
    for (const [value, words] of [
      [-1, '-1'],
      ['1', '"1"'],
      [null, 'null'],
    ] as const)
      expect(check(value)).toThrow(`n: found ${words}, expected a number of at least 0`);
  });
});
