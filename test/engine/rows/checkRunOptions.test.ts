import { describe, expect, test } from '@jest/globals';
import { checkFollowOptions, checkRows, checkRunOptions } from '../../../src/engine/rows/checkRunOptions.js';
import { diagonalBlock } from '../../../src/engine/schedules/blockSchedules.js';
import { UsageError } from '../../../src/errors/UsageError.js';
import { of } from 'rxjs';

import fc from 'fast-check';

const check = (options: unknown): void => {
  checkRunOptions(options, 100);
};

describe('checkRunOptions', () => {
  test('takes what makes sense', () => {
    expect(() =>
      check({
        maxNewTokens: 3,
        stop: ['x'],
        ignoreEos: true,
        logprobs: 100,
        order: 'completion',
        window: 1,
        schedule: diagonalBlock(),
        signal: AbortSignal.abort(),
        onStats: undefined,
      }),
    ).not.toThrow();
  });

  test.each<[unknown, string]>([
    [null, 'options: found null, expected an object'],
    [{ maxTokens: 3 }, 'options: found the unknown "maxTokens", expected any of maxNewTokens,'],
    [{ temperature: '1' }, 'temperature: found "1", expected a number from 0 to 10'],
    [{ stop: [''] }, 'stop[0]: found "", expected a string that is not empty'],
    [{ ignoreEos: 'false' }, 'ignoreEos: found "false", expected true or false'],
    [{ escapeSpecialTokens: 1 }, 'escapeSpecialTokens: found 1, expected true or false'],
    [{ logprobs: '1' }, 'logprobs: found "1", expected a whole number'],
    [{ logprobs: 101 }, 'logprobs: found 101, expected a whole number from 0 to 100, the vocabulary'],
    [{ order: 'any' }, 'order: found "any", expected one of input, completion'],
    [{ window: 0 }, 'window: found 0, expected a whole number of at least 1'],
    [
      { schedule: 'zigzag' },
      'schedule: found "zigzag", expected a Schedule, such as rowByRow(), zigZagBlock() or diagonalBlock() returns',
    ],
    [{ schedule: {} }, 'schedule: found an empty object, expected a Schedule'],
    [{ pipeline: [] }, 'pipeline: found an array of 0, expected a function'],
    [{ peers: {} }, 'peers.source: found undefined, expected what engines send, as an async iterable'],
    [{ signal: 'x' }, 'signal: found "x", expected an AbortSignal'],
    [{ onProgress: 3 }, 'onProgress: found 3, expected a function'],
  ])('%# is refused with what was found and what was expected', (options, message) => {
    expect(() => check(options)).toThrow(message);
    expect(() => check(options)).toThrow(UsageError);
  });

  test('whatever stands under an option, it is taken or refused by UsageError', () => {
    const names = [
      'maxNewTokens',
      'topK',
      'stop',
      'seed',
      'ignoreEos',
      'logprobs',
      'order',
      'window',
      'schedule',
      'pipeline',
      'peers',
      'signal',
      'onTrace',
    ];
    fc.assert(
      fc.property(
        fc.constantFrom(...names),
        fc.anything({ withBigInt: true, withNullPrototype: true, withTypedArray: true }),
        (name, value) => {
          try {
            check({ [name]: value });
          } catch (error) {
            expect(error).toBeInstanceOf(UsageError);
          }
        },
      ),
      { numRuns: 500 },
    );
  });
});

describe('checkFollowOptions', () => {
  test('refuses what the engine before decides', () => {
    expect(() => checkFollowOptions({ window: 2, onStats: () => undefined })).not.toThrow();
    expect(() => checkFollowOptions({ schedule: diagonalBlock() })).toThrow(
      'options: found the unknown "schedule", expected any of pipeline, window, signal, onProgress, onStats, onTrace',
    );
  });
});

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
