import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { PreparedRow } from '../../../src/engine/rows/prepareRow.js';
import { answerKey, rowKey } from '../../../src/engine/rows/rowKey.js';

const row: PreparedRow = {
  tokens: [1, 2, 3],
  maxNewTokens: 5,
  temperature: 0.5,
  topP: 0.9,
  topK: 7,
  minP: 0.1,
  repetitionPenalty: 1.1,
  seed: 3,
  stopTokens: new Set<number>(),
  stop: ['x'],
  samples: undefined,
};
const rules = { ignoreEos: false, logprobs: undefined };

test('whatever decides an answer changes the key, and nothing else does', () => {
  const changed: Partial<PreparedRow>[] = [
    { tokens: [1, 2] },
    { tokens: [1, 2, 4] },
    { tokens: [3, 2, 1] },
    { maxNewTokens: 6 },
    { temperature: 0.6 },
    { temperature: 0 },
    { topP: 0.8 },
    { topK: 6 },
    { minP: 0 },
    { repetitionPenalty: 1 },
    { seed: 4 },
    { stop: [] },
    { stop: ['x', 'y'] },
    { stop: ['y'] },
    { responseFormat: { type: 'regex', regex: 'a' } },
    { responseFormat: { type: 'grammar', grammar: 'a' } },
    { responseFormat: { type: 'json_schema', schema: true } },
    { responseFormat: { type: 'json_schema', schema: {} } },
  ];
  const keys = [
    rowKey(row, rules),
    ...changed.map((change) => rowKey({ ...row, ...change }, rules)),
    rowKey(row, { ...rules, ignoreEos: true }),
    rowKey(row, { ...rules, logprobs: 0 }),
    rowKey(row, { ...rules, logprobs: 1 }),
    rowKey(row, rules, 'another engine'),
  ];
  expect(new Set(keys).size).toBe(keys.length);
  expect(keys.every((key) => /^[0-9a-f]{64}$/.test(key))).toBe(true);
  expect(rowKey({ ...row, tokens: [1, 2, 3], samples: [4] }, { ...rules })).toBe(keys[0]);
});

test('of a greedy row what steers chance alone is nothing to its answer', () => {
  const greedy = { ...row, temperature: 0 };
  const key = rowKey(greedy, rules);
  for (const change of [{ topP: 0.2 }, { topK: 1 }, { minP: 1 }, { seed: 9 }])
    expect(rowKey({ ...greedy, ...change }, rules)).toBe(key);
  for (const change of [{ repetitionPenalty: 2 }, { maxNewTokens: 1 }])
    expect(rowKey({ ...greedy, ...change }, rules)).not.toBe(key);
});

test('no boundary between its parts can be shifted', () => {
  fc.assert(
    fc.property(
      fc.array(fc.string()),
      fc.array(fc.string()),
      fc.array(fc.nat()),
      fc.array(fc.nat()),
      (stopA, stopB, tokensA, tokensB) => {
        const same = JSON.stringify([stopA, tokensA]) === JSON.stringify([stopB, tokensB]);
        expect(
          rowKey({ ...row, stop: stopA, tokens: tokensA }, rules) ===
            rowKey({ ...row, stop: stopB, tokens: tokensB }, rules),
        ).toBe(same);
      },
    ),
  );
});

describe('of a row that generates nothing', () => {
  test('task, parameters in their order, prompt and engine change the key', () => {
    const keys = [
      answerKey('classify', [['a', 'b'], [[1], [2]], null], [5, 6]),
      answerKey('classify', [['b', 'a'], [[2], [1]], null], [5, 6]),
      answerKey(
        'classify',
        [
          ['a', 'b'],
          [[1], [2]],
          [0, -1],
        ],
        [5, 6],
      ),
      answerKey('score', [['a', 'b'], [[1], [2]], null], [5, 6]),
      answerKey('embed', [['a', 'b'], [[1], [2]], null], [5, 6]),
      answerKey('classify', [['a', 'b'], [[1], [2]], null], [6, 5]),
      answerKey('classify', [['a', 'b'], [[1], [2]], null], [5]),
      answerKey('classify', [['a', 'b'], [[1], [2]], null], [5, 6], 'another engine'),
    ];
    expect(new Set(keys).size).toBe(keys.length);
    expect(answerKey('classify', [['a', 'b'], [[1], [2]], null], [5, 6])).toBe(keys[0]);
  });

  test('no boundary between its parts can be shifted, and no two numbers are one', () => {
    const parameters = fc.array(
      fc.oneof(
        fc.string(),
        fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => value + 0),
        fc.array(fc.nat()),
      ),
    );
    fc.assert(
      fc.property(
        parameters,
        parameters,
        fc.array(fc.nat()),
        fc.array(fc.nat()),
        (parametersA, parametersB, tokensA, tokensB) => {
          const same = JSON.stringify([parametersA, tokensA]) === JSON.stringify([parametersB, tokensB]);
          expect(answerKey('score', parametersA, tokensA) === answerKey('score', parametersB, tokensB)).toBe(same);
        },
      ),
    );
  });
});
