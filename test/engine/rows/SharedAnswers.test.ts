import { expect, test } from '@jest/globals';
import type { KeptAnswer, RowResult } from '../../../src/Row.js';
import type { OrderedResult } from '../../../src/engine/rows/ActiveRow.js';
import { SharedAnswers } from '../../../src/engine/rows/SharedAnswers.js';

const answer = (id: string): RowResult => ({
  id, index: 0, text: 'a', reasoning: 'r', tokens: [4], finishReason: 'stop', usage: { promptTokens: 2, completionTokens: 1 },
  logprobs: [{ token: 4, logprob: -1, top: [{ token: 5, logprob: -2 }] }], row: { own: id },
});

function shared(): { answers: SharedAnswers; seen: OrderedResult[]; equal: () => number; complete: () => boolean } {
  let [equal, complete] = [0, false];
  const answers = new SharedAnswers({ equal: () => equal++, reused: () => undefined }, { rows: 2, bytes: 4000 });
  const seen: OrderedResult[] = [];
  answers.results$.subscribe({ next: (result) => seen.push(result), complete: () => (complete = true) });
  return { answers, seen, equal: () => equal, complete: () => complete };
}

test('those that wait get the answer under their own names, as copies', async () => {
  const { answers, seen, equal } = shared();
  expect(await answers.has('k', { id: 'a', index: 0, sequence: 0, carry: { own: 'a' } }, 2)).toBe(false);
  expect(await answers.has('k', { id: 'b', index: 1, sequence: 1, carry: { own: 'b' } }, 2)).toBe(true);
  expect(await answers.has('k', { id: 'c', index: 7, sequence: 2, sample: 3 }, 2)).toBe(true);
  const first = answer('a');
  answers.answered('k', first);
  const { row, ...rest } = first;
  expect(row).toEqual({ own: 'a' });
  expect(seen).toEqual([{ sequence: 1, result: { ...rest, id: 'b', index: 1, row: { own: 'b' } } }, { sequence: 2, result: { ...rest, id: 'c', index: 7, sample: 3 } }]);
  expect(seen.every(({ result }) => result.tokens !== first.tokens && result.logprobs !== first.logprobs && result.logprobs?.[0]?.top !== first.logprobs?.[0]?.top)).toBe(true);
  expect(equal()).toBe(2);
});

test('a row that comes after the answer gets a copy, as long as it is among the last ones', async () => {
  const { answers, seen, equal } = shared();
  await answers.has('k', { id: 'a', index: 0, sequence: 0 }, 2);
  const first = answer('a');
  answers.answered('k', first);
  // What the first row's owner makes of it is nobody else's.
  (first.tokens as number[]).push(9);
  expect(await answers.has('k', { id: 'b', index: 1, sequence: 1, carry: { own: 'b' } }, 2)).toBe(true);
  expect(seen).toEqual([{ sequence: 1, result: { ...answer('b'), index: 1 } }]);
  expect(equal()).toBe(1);
  // Two others push it out.
  for (const key of ['l', 'm']) {
    expect(await answers.has(key, { id: key, index: 2, sequence: 2 }, 2)).toBe(false);
    answers.answered(key, answer(key));
  }
  expect(await answers.has('k', { id: 'c', index: 4, sequence: 4 }, 2)).toBe(false);
});

test('an error is no answer for a row that comes later', async () => {
  const { answers } = shared();
  await answers.has('k', { id: 'a', index: 0, sequence: 0 }, 2);
  answers.answered('k', { ...answer('a'), finishReason: 'error', error: { code: 'limit', message: 'm' } });
  expect(await answers.has('k', { id: 'b', index: 1, sequence: 1 }, 2)).toBe(false);
});

test('what is on its way into the store is waited for, and what that rejects with ends the run', async () => {
  for (const failure of [undefined, new Error('the store is full')]) {
    let settle: () => void = () => undefined;
    const put = (): Promise<void> => new Promise((resolve, reject) => (settle = () => { if (failure) reject(failure); else resolve(); }));
    const answers = new SharedAnswers({ equal: () => undefined, reused: () => undefined }, false, { get: () => undefined, put });
    let end: unknown = 'none';
    answers.results$.subscribe({ error: (error: unknown) => (end = error), complete: () => (end = 'complete') });
    await answers.has('k', { id: 'a', index: 0, sequence: 0 }, 2);
    answers.answered('k', answer('a'));
    answers.inputOver();
    expect(end).toBe('none');
    settle();
    await new Promise((resolve) => setImmediate(resolve));
    expect(end).toBe(failure ?? 'complete');
  }
});

test('what a store gives that is no answer is refused', async () => {
  for (const given of [{}, null, 'text', { text: 'a', tokens: 'b', finishReason: 'stop' }, { text: 'a', reasoning: 7, tokens: [], finishReason: 'stop' }, { text: 'a', tokens: [], finishReason: 'error' }]) {
    const answers = new SharedAnswers({ equal: () => undefined, reused: () => undefined }, false, { get: () => given as never, put: () => undefined });
    await expect(answers.has('k', { id: 'a', index: 0, sequence: 0 }, 2)).rejects.toThrow(/^reuse: found .* from get, expected undefined or an answer with text, tokens/);
  }
});

test('an error is shared, and the end waits for those that wait', async () => {
  const { answers, seen, complete } = shared();
  await answers.has('k', { id: 'a', index: 0, sequence: 0 }, 2);
  await answers.has('k', { id: 'b', index: 1, sequence: 1 }, 2);
  answers.inputOver();
  expect(complete()).toBe(false);
  answers.answered('k', { ...answer('a'), finishReason: 'error', error: { code: 'numeric', message: 'm' } });
  expect(seen.map(({ result }) => result.error)).toEqual([{ code: 'numeric', message: 'm' }]);
  expect(complete()).toBe(true);
});

test('what is kept is there at once, under the row\'s own name, and what was computed is kept; errors are not', async () => {
  const [kept, counted] = [new Map<string, KeptAnswer>([['k', { text: 't', tokens: [1, 2], finishReason: 'length' }]]), { equal: 0, reused: 0 }];
  const store = { get: (key: string) => kept.get(key), put: (key: string, answered: KeptAnswer) => void kept.set(key, answered) };
  const answers = new SharedAnswers({ equal: () => counted.equal++, reused: () => counted.reused++ }, false, store);
  const seen: OrderedResult[] = [];
  answers.results$.subscribe((result) => seen.push(result));
  expect(await answers.has('k', { id: 'b', index: 3, sequence: 5, sample: 1, carry: { own: 1 } }, 7)).toBe(true);
  expect(seen).toEqual([{ sequence: 5, result: { id: 'b', index: 3, sample: 1, text: 't', tokens: [1, 2], finishReason: 'length', usage: { promptTokens: 7, completionTokens: 2 }, row: { own: 1 } } }]);
  expect(await answers.has('l', { id: 'c', index: 4, sequence: 6 }, 7)).toBe(false);
  expect(await answers.has('l', { id: 'd', index: 5, sequence: 7 }, 7)).toBe(false);
  answers.answered('l', answer('c'));
  answers.answered('m', { ...answer('e'), finishReason: 'error', error: { code: 'numeric', message: 'm' } });
  const { text, reasoning, tokens, finishReason, logprobs } = answer('c');
  expect([...kept]).toEqual([['k', { text: 't', tokens: [1, 2], finishReason: 'length' }], ['l', { text, reasoning, tokens, finishReason, logprobs }]]);
  expect(counted).toEqual({ equal: 0, reused: 1 });
});
