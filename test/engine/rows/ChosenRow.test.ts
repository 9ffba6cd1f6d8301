import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { Continuation, type RunRow } from '../../../src/engine/execution/RunRow.js';
import { drained } from '../../../src/collections/drained.js';
import { ChoiceTree } from '../../../src/engine/grammar/ChoiceTree.js';
import { ActiveRow, type OrderedResult } from '../../../src/engine/rows/ActiveRow.js';
import { ChosenRow } from '../../../src/engine/rows/ChosenRow.js';
import type { HeadOutput } from '../../../src/engine/grid/Task.js';
import { letterTokenizer } from '../../support/wordTokenizer.js';

const PROMPT = [1, 2, 3];
const END = 26;
const LETTERS = 'abcdef';

/** What a model says of a token after others, made up: few values, so that sums may be equal. */
const logprobOf = (tokens: readonly number[], kinds: number): number =>
  -Math.fround((tokens.reduce((sum, token) => (sum * 31 + token) % 10_007, 7) % kinds) / 4);

interface Searched {
  readonly result: OrderedResult['result'];
  /** Tokens that were computed after the prompt. */
  readonly computed: number;
}

function searched(choices: readonly string[], kinds: number, end: number | undefined, logprobs?: number): Searched {
  const tokenizer = letterTokenizer();
  const lists = choices.map((text) => ({ text, tokens: [...text].map((letter) => LETTERS.indexOf(letter)) }));
  const tree = drained(ChoiceTree.of(lists, end));
  const prepared = {
    tokens: PROMPT,
    maxNewTokens: 10,
    temperature: 0,
    topP: 1,
    topK: 0,
    minP: 0,
    repetitionPenalty: 1,
    seed: 0,
    stop: [],
    stopTokens: new Set<number>(),
  };
  const counter = { token: () => undefined, row: () => undefined };
  const active = new ActiveRow(
    { id: 1, index: 0, sequence: 0 },
    prepared,
    tokenizer,
    { ignoreEos: false, logprobs },
    counter,
  );
  const waiting: RunRow<OrderedResult>[] = [new ChosenRow(PROMPT, tree, active, logprobs)];
  let computed = 0;
  for (;;) {
    const row = waiting.shift();
    if (!row) throw new Error('no row goes on, and there is no answer');
    const { tokens, candidates, logprobs: wanted } = row.sequence;
    computed += tokens.length - PROMPT.length;
    const like = (token: number) => ({ token, logprob: logprobOf([...tokens, token], kinds) });
    const head: HeadOutput =
      row.newTokens > 0
        ? {
            sampled: new Map([
              [
                0,
                {
                  token: 0,
                  logprob: 0,
                  top: (candidates ?? Array.from({ length: wanted }, (_, each) => each)).map(like),
                },
              ],
            ]),
            scored: new Map(),
          }
        : {
            sampled: new Map(),
            scored: new Map([
              [0, Float32Array.from(tokens.slice(1).map((_, at) => logprobOf(tokens.slice(0, at + 2), kinds)))],
            ]),
          };
    const ended = row.accept(head, 0, 0);
    if (ended instanceof Continuation) waiting.push(...ended.rows);
    else if (ended) {
      expect(waiting).toEqual([]);
      return { result: ended.result, computed };
    }
  }
}

const sumOf = (text: string, kinds: number, end: number | undefined): number => {
  const tokens = [...[...text].map((letter) => LETTERS.indexOf(letter)), ...(end === undefined ? [] : [end])];
  return tokens.reduce((sum, _, at) => sum + logprobOf([...PROMPT, ...tokens.slice(0, at + 1)], kinds), 0);
};

test('the choice is the one with the largest sum, of equal ones the first, whatever begins with whatever', () => {
  fc.assert(
    fc.property(
      fc.uniqueArray(fc.string({ unit: fc.constantFrom(...LETTERS), minLength: 1, maxLength: 6 }), {
        minLength: 1,
        maxLength: 300,
      }),
      fc.constantFrom(3, 40),
      fc.constantFrom(END, undefined),
      fc.constantFrom(undefined, 0, 2),
      (choices, kinds, end, logprobs) => {
        const sums = choices.map((text) => sumOf(text, kinds, end));
        const best = choices[sums.indexOf(Math.max(...sums))] ?? '';
        const { result } = searched(choices, kinds, end, logprobs);
        expect([result.text, result.finishReason]).toEqual([best, 'stop']);
        if (logprobs === undefined) return;
        const { tokens } = result;
        expect(result.logprobs).toEqual(
          tokens.map((token, at) => {
            const before = [...PROMPT, ...tokens.slice(0, at)];
            return {
              token,
              logprob: logprobOf([...before, token], kinds),
              top: Array.from({ length: logprobs }, (_, other) => ({
                token: other,
                logprob: logprobOf([...before, other], kinds),
              })),
            };
          }),
        );
      },
    ),
    { numRuns: 300 },
  );
});

test('few of many choices are gone along', () => {
  const choices = Array.from({ length: 1000 }, (_, at) =>
    [...at.toString(6).padStart(6, '0')].map((digit) => LETTERS[Number(digit)]).join(''),
  );
  expect(searched(choices, 40, END).computed).toBeLessThan(1000);
});
