import { checkBoolean, checkFunction, checkNumber, checkOneOf, checkSignal, checkText, checkWhole } from '../../src/arguments/checks.js';
import { found } from '../../src/arguments/found.js';
import { checkObject } from '../../src/arguments/objectArgument.js';
import { UsageError } from '../../src/errors/UsageError.js';

const revoked = Proxy.revocable({}, {});
revoked.revoke();

describe('found', () => {
  test.each<[unknown, string]>([
    ['2', '"2"'], ['a\nb', String.raw`"a\nb"`], ['x'.repeat(200), `"${'x'.repeat(80)}…"`], [2, '2'], [NaN, 'NaN'], [5n, '5n'], [undefined, 'undefined'], [null, 'null'], [true, 'true'],
    [() => 1, 'a function'], [Symbol('s'), 'a symbol'], [[1, 2], 'an array of 2'], [{}, 'an empty object'], [{ a: 1, b: 1n }, 'an object with a, b'],
    [{ a: 1, b: 2, c: 3, d: 4 }, 'an object with a, b, c, …'], [Object.assign(Object.create(null) as object, { a: 1n }), 'an object with a'], [revoked.proxy, 'an object'],
  ])('%# is told in a few words', (value, text) => {
    expect(found(value)).toBe(text);
  });
});

describe('checkObject', () => {
  test('takes objects with known members, and with absent ones', () => {
    expect(() => checkObject('options', { a: 1, z: undefined }, ['a', 'b'])).not.toThrow();
    expect(() => checkObject('options', Object.create(null))).not.toThrow();
  });

  test.each([[undefined], [null], [3], ['x'], [[]], [() => 1]])('refuses %p', (value) => {
    expect(() => checkObject('options', value)).toThrow(/^options: found .+, expected an object$/);
    expect(() => checkObject('options', value)).toThrow(UsageError);
  });

  test('names a member that is not known', () => {
    expect(() => checkObject('options', { thread: 2 }, ['threads', 'model'])).toThrow('options: found the unknown "thread", expected any of threads, model');
  });
});

describe('checks of single values', () => {
  test('pass what fits', () => {
    checkWhole('n', 3, 1, 4);
    checkOneOf('o', 'a', ['a', 'b']);
    checkFunction('f', undefined);
    checkFunction('f', () => 1);
    checkBoolean('b', false);
    checkSignal('s', new AbortController().signal);
    checkSignal('s', undefined);
    checkNumber('n', 0.5, (value) => value < 1, 'a number below 1');
    checkText('t', '');
  });

  test.each<[() => void, string]>([
    [() => checkWhole('n', '2', 1, 4), 'n: found "2", expected a whole number from 1 to 4'],
    [() => checkWhole('n', NaN, 1), 'n: found NaN, expected a whole number of at least 1'],
    [() => checkWhole('n', 2 ** 53, 0), 'n: found 9007199254740992, expected a whole number from 0 to 9007199254740991'],
    [() => checkNumber('n', NaN, () => true, 'a number'), 'n: found NaN, expected a number'],
    [() => checkNumber('n', 2, (value) => value < 2, 'a number below 2'), 'n: found 2, expected a number below 2'],
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
