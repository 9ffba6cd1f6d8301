import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { checkSampling, generatorSeed, prepareRow as prepareRowInParts } from '../../../src/engine/rows/prepareRow.js';
import { drained } from '../../../src/collections/drained.js';
import { RowError } from '../../../src/errors/RowError.js';
import type { GenerateOptions, Row } from '../../../src/Row.js';
import { letterTokenizer } from '../../support/wordTokenizer.js';

const prepareRow = (...given: Parameters<typeof prepareRowInParts>) => drained(prepareRowInParts(...given));

const LIMITS = { contextTokens: 10, vocabularySize: 27 };
const prepare = (row: unknown, options: GenerateOptions = {}): ReturnType<typeof prepareRow> =>
  prepareRow(row as Row, options, letterTokenizer(), LIMITS);

describe('prepareRow', () => {
  test("settles every parameter: the row's own, else the run's, else the default", () => {
    expect(prepare({ prompt: 'abc' })).toEqual({
      tokens: [0, 1, 2],
      maxNewTokens: 8,
      temperature: 0,
      topP: 1,
      topK: 0,
      minP: 0,
      repetitionPenalty: 1,
      seed: 0,
      stop: [],
      stopTokens: new Set(),
    });
    const settled = prepare(
      { prompt: 'a', topP: 0.5, stop: ['x'] },
      { topP: 0.9, temperature: 2, maxNewTokens: 3, stop: ['y'] },
    );
    expect(settled).toMatchObject({ topP: 0.5, temperature: 2, maxNewTokens: 3, stop: ['x'] });
  });

  test('takes messages through the chat template, and tokens as they are', () => {
    expect(prepare({ messages: [{ role: 'user', content: 'ab' }] }).tokens).toEqual([0, 1]);
    expect(prepare({ tokens: [26, 0] }).tokens).toEqual([26, 0]);
  });

  test('a row that waits keeps its tokens, whatever becomes of the array that they were given in', () => {
    const tokens = [26, 0];
    const prepared = prepare({ tokens });
    tokens[0] = 99;
    expect(prepared.tokens).toEqual([26, 0]);
  });

  test('new tokens end where the context does; the last one needs no position', () => {
    expect(prepare({ prompt: 'abcdefghij', maxNewTokens: 5 }).maxNewTokens).toBe(1);
    expect(prepare({ prompt: 'abcdefghi', maxNewTokens: 5 }).maxNewTokens).toBe(2);
  });

  test('what is above 0 is so in the floats of a device, too', () => {
    const { topP, repetitionPenalty } = prepare({ prompt: 'a', topP: 1e-50, repetitionPenalty: 1e-300 });
    expect([Math.fround(topP) > 0, Math.fround(repetitionPenalty) > 0]).toEqual([true, true]);
  });

  test('large seeds are folded, small ones stay', () => {
    expect(generatorSeed(7)).toBe(7);
    expect(generatorSeed(2 ** 40 + 7)).toBe((2 ** 8) ^ 7);
    expect(prepare({ prompt: 'a', seed: 2 ** 40 + 7 }).seed).toBe(2 ** 40 + 7);
  });

  test.each<[unknown, string, RegExp]>([
    [{}, 'no-prompt', /found none of them, expected exactly one of prompt, messages and tokens/],
    [{ prompt: 'a', tokens: [1] }, 'no-prompt', /found prompt and tokens/],
    [{ prompt: '' }, 'empty-prompt', /no begin token/],
    [{ prompt: 7 }, 'invalid-row', /prompt: found 7/],
    [{ tokens: [] }, 'empty-prompt', /empty array/],
    [{ tokens: 'a' }, 'invalid-row', /tokens: found "a"/],
    [{ tokens: [27] }, 'token-out-of-range', /found 27, expected ids from 0 to 26/],
    [{ tokens: [-1] }, 'token-out-of-range', /found -1/],
    [{ tokens: [0.5] }, 'token-out-of-range', /found 0.5/],
    [{ tokens: [null] }, 'token-out-of-range', /found null/],
    [{ prompt: 'abcdefghijk' }, 'too-long', /11 tokens, the model's context holds 10/],
    [{ messages: [] }, 'invalid-row', /messages/],
    [{ messages: [{ role: 'user' }] }, 'invalid-row', /messages\[0\]/],
    [{ messages: [null] }, 'invalid-row', /messages\[0\]/],
    [{ messages: [{ role: 'nobody', content: 'a' }] }, 'chat-template', /no such role/],
    [{ prompt: 'a', maxNewTokens: 0 }, 'invalid-parameter', /maxNewTokens: found 0/],
    [{ prompt: 'a', temperature: -1 }, 'invalid-parameter', /temperature: found -1/],
    [{ prompt: 'a', temperature: NaN }, 'invalid-parameter', /temperature/],
    [{ prompt: 'a', topP: 0 }, 'invalid-parameter', /topP: found 0/],
    [{ prompt: 'a', topP: '0.5' }, 'invalid-parameter', /topP: found "0.5"/],
    [{ prompt: 'a', topK: 1.5 }, 'invalid-parameter', /topK: found 1.5/],
    [{ prompt: 'a', minP: 2 }, 'invalid-parameter', /minP: found 2/],
    [{ prompt: 'a', repetitionPenalty: 0 }, 'invalid-parameter', /repetitionPenalty: found 0/],
    [{ prompt: 'a', seed: -1 }, 'invalid-parameter', /seed: found -1/],
    [
      { prompt: 'a', seed: Number.MAX_SAFE_INTEGER, samples: 2 },
      'invalid-parameter',
      /seed: found 9007199254740991, to which the numbers of 2 samples are added, expected at most 9007199254740990/,
    ],
    [{ prompt: 'a', stop: Array(1025).fill('x') }, 'limit', /stop: found 1025 strings, expected at most 1024/],
    [{ prompt: 'a', stop: ['x', 'y'.repeat(16_384)] }, 'limit', /stop: found strings of more than 16384 UTF-16 units/],
    [{ prompt: 'a', stop: [''] }, 'invalid-parameter', /stop\[0\]: found "", expected a string that is not empty/],
  ])('%j is %s', (row, rowCode, message) => {
    expect(() => prepare(row)).toThrow(expect.objectContaining({ rowCode, message: expect.stringMatching(message) }));
  });

  test('whatever a row holds, it is prepared within the limits or refused with a RowError', () => {
    const anything = fc.record(
      Object.fromEntries(
        [
          'prompt',
          'messages',
          'tokens',
          'maxNewTokens',
          'temperature',
          'topP',
          'topK',
          'minP',
          'repetitionPenalty',
          'seed',
          'stop',
        ].map((name) => [name, fc.oneof(fc.anything(), fc.nat(30), fc.double())]),
      ),
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(anything, (row) => {
        try {
          const { tokens, maxNewTokens } = prepare(row);
          expect(tokens.length).toBeGreaterThan(0);
          expect(maxNewTokens).toBeGreaterThan(0);
          expect(tokens.length + maxNewTokens - 1).toBeLessThanOrEqual(LIMITS.contextTokens);
        } catch (error) {
          expect(error).toBeInstanceOf(RowError);
        }
      }),
      { numRuns: 2000 },
    );
  });
});

describe('checkSampling', () => {
  test('judges the options of a run by the same rules', () => {
    checkSampling({ temperature: 0.7, stop: ['x'] });
    expect(() => {
      checkSampling({ topP: 7 });
    }).toThrow(/topP: found 7/);
    expect(() => {
      checkSampling({ stop: [''] });
    }).toThrow(/stop/);
  });
});
