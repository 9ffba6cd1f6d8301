import { describe, expect, test } from '@jest/globals';
import { isIterable } from '../../src/arguments/isObject.js';

describe('isIterable', () => {
  test.each<[unknown]>([
    [[]],
    [new Map()],
    [
      (function* () {
        yield 1;
      })(),
    ],
    [
      (async function* () {
        yield Promise.resolve(1);
      })(),
    ],
    [new ReadableStream()],
  ])('%# can be iterated', (value) => {
    expect(isIterable(value)).toBe(true);
  });

  test.each<[unknown]>([[undefined], [null], ['text'], [3], [{}], [() => 1], [{ [Symbol.iterator]: true }]])(
    '%p cannot',
    (value) => {
      expect(isIterable(value)).toBe(false);
    },
  );
});
