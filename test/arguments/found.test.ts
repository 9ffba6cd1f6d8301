import { describe, expect, test } from '@jest/globals';
import { found, foundInFile } from '../../src/arguments/found.js';

const revoked = Proxy.revocable({}, {});
revoked.revoke();

describe('found', () => {
  test.each<[unknown, string]>([
    ['2', '"2"'],
    ['a\nb', String.raw`"a\nb"`],
    ['\u001b[2J\u009b\u202e\u{e0001}', String.raw`"\u001b[2J\u009b\u202e\udb40\udc01"`],
    ['x'.repeat(200), `"${'x'.repeat(80)}…"`],
    [2, '2'],
    [NaN, 'NaN'],
    [5n, '5n'],
    [undefined, 'undefined'],
    [null, 'null'],
    [true, 'true'],
    [() => 1, 'a function'],
    [Symbol('s'), 'a symbol'],
    [[1, 2], 'an array of 2'],
    [{}, 'an empty object'],
    [{ '\u001b[2J': 1 }, String.raw`an object with \u001b[2J`],
    [{ a: 1, b: 1n }, 'an object with a, b'],
    [{ a: 1, b: 2, c: 3, d: 4 }, 'an object with a, b, c, …'],
    [Object.assign(Object.create(null) as object, { a: 1n }), 'an object with a'],
    [revoked.proxy, 'an object'],
  ])('%# is told in a few words', (value, text) => {
    expect(found(value)).toBe(text);
  });
});

test('a value of a file is told in the words of JSON', () => {
  expect(foundInFile(undefined)).toBe('nothing');
  expect(foundInFile(5n)).toBe('5');
  expect(foundInFile({ a: 1 })).toBe('an object');
  expect(foundInFile(new Float32Array(3))).toBe('an array of 3');
  expect(foundInFile(-0.5)).toBe('-0.5');
  expect(foundInFile(Symbol('s'))).toBe('a symbol');
  expect(foundInFile('x'.repeat(1000)).length).toBeLessThan(100);
});
