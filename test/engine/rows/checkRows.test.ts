import { describe, expect, test } from '@jest/globals';
import { of } from 'rxjs';
import { checkRows } from '../../../src/engine/rows/checkRows.js';
import { UsageError } from '../../../src/errors/UsageError.js';

const row = { prompt: 'a' };

describe('checkRows', () => {
  test.each([
    ['an array', [row]],
    ['a set', new Set([row])],
    [
      'a generator',
      (function* () {
        yield row;
      })(),
    ],
    [
      'an async generator',
      (async function* () {
        yield await Promise.resolve(row);
      })(),
    ],
    ['a stream', new ReadableStream()],
    ['an Observable', of(row)],
  ])('takes %s', (_, rows) => {
    expect(() => checkRows(rows)).not.toThrow();
  });

  test.each([[undefined], [null], [5], ['text'], [{}], [row], [Promise.resolve([row])], [() => [row]]])(
    'refuses %p, and says what rows may be',
    (rows) => {
      expect(() => checkRows(rows)).toThrow(/^rows: found .*, expected an array .*; one row alone goes as \[row\]$/);
      expect(() => checkRows(rows)).toThrow(UsageError);
    },
  );
});
