import { describe, expect, test } from '@jest/globals';
import type { KeptAnswer, KeptAnswers } from '../../../src/KeptAnswer.js';
import type { ResultBase } from '../../../src/Results.js';
import type { Ordered } from '../../../src/engine/rows/ActiveRow.js';
import { RecentAnswers, type AnswerBounds } from '../../../src/engine/rows/RecentAnswers.js';
import { SharedAnswers, type HeldRow, type Outcome } from '../../../src/engine/rows/SharedAnswers.js';

type Task = keyof KeptAnswers;
type Result = ResultBase & { readonly outcome: Outcome<Task> };

const usage = { promptTokens: 2, completionTokens: 1 };
const failed: Outcome<Task> = { error: { code: 'numeric', message: 'm' }, usage };
/** Of each task an answer with all that may be in one, and what a store may give that is none. */
const TASKS: readonly (readonly [Task, KeptAnswer, readonly unknown[], string])[] = [
  [
    'generate',
    {
      text: 'a',
      reasoning: 'r',
      tokens: [4],
      finishReason: 'stop',
      logprobs: [{ token: 4, logprob: -1, top: [{ token: 5, logprob: -2 }] }],
    },
    [
      { text: 'a', tokens: 'b', finishReason: 'stop' },
      { text: 'a', reasoning: 7, tokens: [], finishReason: 'stop' },
      { text: 'a', tokens: [], finishReason: 'error' },
      { label: 'a' },
    ],
    'text, tokens and a finishReason',
  ],
  [
    'classify',
    { label: 'a', probability: 0.75, probabilities: { a: 0.75, b: 0.25 } },
    [{ label: 'a', probability: 1 }, { label: 'a', probability: 1, probabilities: null }, { scores: [] }],
    'a label',
  ],
  [
    'score',
    { scores: [{ logprob: -1, tokens: 2, tokenLogprobs: [{ token: 1, logprob: -0.5 }] }] },
    [{ scores: 7 }, { embedding: [1] }],
    'scores',
  ],
  [
    'embed',
    { embedding: [0.5, -0.25] },
    [{ embedding: 7 }, { text: 'a', tokens: [], finishReason: 'stop' }],
    'an embedding',
  ],
];

interface Shared {
  readonly answers: SharedAnswers<Task, Result>;
  readonly seen: Ordered<Result>[];
  readonly counted: { equal: number; reused: number };
  readonly ended: () => unknown;
}

function shared(
  task: Task,
  joinsEqual: AnswerBounds | false = { rows: 2, bytes: 4000 },
  store?: ConstructorParameters<typeof SharedAnswers>[3],
): Shared {
  const counted = { equal: 0, reused: 0 };
  let end: unknown = 'not yet';
  const answers = new SharedAnswers<Task, Result>(
    task,
    { equal: () => counted.equal++, reused: () => counted.reused++ },
    joinsEqual ? new RecentAnswers(joinsEqual) : undefined,
    store,
  );
  const seen: Ordered<Result>[] = [];
  answers.results$.subscribe({
    next: (result) => seen.push(result),
    error: (error: unknown) => (end = error),
    complete: () => (end = 'complete'),
  });
  return { answers, seen, counted, ended: () => end };
}

/** A row whose result says what it got. */
function held(sequence: number): HeldRow<Task, Result> {
  return {
    sequence,
    usage: () => usage,
    result: (outcome) => ({ id: sequence, index: sequence, usage: outcome.usage, outcome }),
  };
}
/** The result of a row that takes a tenth of a millisecond to be made. */
function slowResult(sequence: number): HeldRow<Task, Result>['result'] {
  return (outcome) => {
    for (const until = performance.now() + 0.1; performance.now() < until;);
    return held(sequence).result(outcome);
  };
}
const outcomes = (seen: readonly Ordered<Result>[]): unknown[] =>
  seen.map(({ sequence, result }) => [sequence, result.outcome]);

/** Every list and object in it. */
function parts(data: unknown): unknown[] {
  return typeof data === 'object' && data !== null ? [data, ...Object.values(data).flatMap(parts)] : [];
}

describe.each(TASKS)('rows of a run that does %s', (task, answer, others, words) => {
  const outcome = (): Outcome<Task> => ({ answer, usage });
  const untouched = structuredClone(answer);

  test('those that wait get the answer, as copies', async () => {
    const { answers, seen, counted } = shared(task);
    expect(await answers.has('k', held(0))).toBe(false);
    expect(await answers.has('k', held(1))).toBe(true);
    expect(await answers.has('k', held(2))).toBe(true);
    answers.answered('k', outcome());
    expect(outcomes(seen)).toEqual([
      [1, outcome()],
      [2, outcome()],
    ]);
    const own = new Set(parts(answer));
    const [first = [], second = []] = seen.map(({ result }) => parts(result.outcome));
    expect(first.some((part) => own.has(part) || second.includes(part))).toBe(false);
    expect(counted).toEqual({ equal: 2, reused: 0 });
  });

  test('of many that wait for a long answer not all are seen to in one turn, and none gets what the first makes of it', async () => {
    const { answers, seen, ended, counted } = shared(task);
    await answers.has('k', held(0));
    for (let row = 1; row <= 4000; row++) await answers.has('k', { ...held(row), result: slowResult(row) });
    const first = { answer: structuredClone(answer), usage };
    answers.answered('k', first);
    const atOnce = seen.length;
    expect(atOnce).toBeLessThan(4000);
    // The figures of a run are told when its last row has ended.
    expect(counted).toEqual({ equal: 4000, reused: 0 });
    for (const part of parts(first.answer))
      for (const name of Object.keys(part as object)) Reflect.deleteProperty(part as object, name);
    answers.inputOver();
    expect(ended()).toBe('not yet');
    while (ended() === 'not yet') await new Promise((resolve) => setImmediate(resolve));
    expect(ended()).toBe('complete');
    expect(seen.map(({ sequence }) => sequence)).toEqual(Array.from({ length: 4000 }, (_, at) => at + 1));
    expect(seen.at(-1)?.result.outcome).toEqual({ answer: untouched, usage });
  });

  test('a row that comes after the answer gets a copy, as long as it is among the last ones', async () => {
    const { answers, seen, counted } = shared(task);
    await answers.has('k', held(0));
    const first = { answer: structuredClone(answer), usage };
    answers.answered('k', first);
    // What the first row's owner makes of it is nobody else's.
    for (const part of parts(first.answer))
      for (const name of Object.keys(part as object)) (part as Record<string, unknown>)[name] = 'changed';
    expect(await answers.has('k', held(1))).toBe(true);
    expect(outcomes(seen)).toEqual([[1, outcome()]]);
    expect(counted).toEqual({ equal: 1, reused: 0 });
    // Two others push it out.
    for (const key of ['l', 'm']) {
      expect(await answers.has(key, held(2))).toBe(false);
      answers.answered(key, outcome());
    }
    expect(await answers.has('k', held(3))).toBe(false);
  });

  test('what is kept is there at once, and what was computed is kept; errors are not', async () => {
    const kept = new Map<string, KeptAnswer>([['k', answer]]);
    const { answers, seen, counted } = shared(task, false, {
      get: (key) => kept.get(key),
      put: (key, put) => void kept.set(key, put),
    });
    expect(await answers.has('k', held(5))).toBe(true);
    expect(outcomes(seen)).toEqual([[5, outcome()]]);
    const own = new Set(parts(answer));
    expect(parts(seen[0]?.result.outcome).some((part) => own.has(part))).toBe(false);
    // Without joining, rows that are equal and under way are computed.
    expect(await answers.has('l', held(6))).toBe(false);
    expect(await answers.has('l', held(7))).toBe(false);
    answers.answered('l', outcome());
    answers.answered('m', failed);
    expect([...kept]).toEqual([
      ['k', answer],
      ['l', answer],
    ]);
    expect(counted).toEqual({ equal: 0, reused: 1 });
  });

  test('of what a store gives the answer is taken, and nothing beside it', async () => {
    const { answers, seen } = shared(task, false, {
      get: () => Object.assign({ id: 'mine', usage: 7, error: 'none', value: 1 }, answer),
      put: () => undefined,
    });
    await answers.has('k', held(0));
    expect(outcomes(seen)).toEqual([[0, outcome()]]);
  });

  test('what a store gives that is no answer is refused', async () => {
    for (const given of [{}, null, 'text', ...others]) {
      const { answers } = shared(task, false, { get: () => given as never, put: () => undefined });
      await expect(answers.has('k', held(0))).rejects.toThrow(
        /^reuse: found .* from get, expected undefined or an answer with /,
      );
      await expect(answers.has('k', held(0))).rejects.toThrow(words);
    }
  });
});

test('an error is no answer for a row that comes later', async () => {
  const { answers } = shared('generate');
  await answers.has('k', held(0));
  answers.answered('k', failed);
  expect(await answers.has('k', held(1))).toBe(false);
});

test('what is on its way into the store is waited for, and what that rejects with ends the run', async () => {
  for (const failure of [undefined, new Error('the store is full')]) {
    let settle: () => void = () => undefined;
    const put = (): Promise<void> =>
      new Promise(
        (resolve, reject) =>
          (settle = () => {
            if (failure) reject(failure);
            else resolve();
          }),
      );
    const { answers, ended } = shared('embed', false, { get: () => undefined, put });
    await answers.has('k', held(0));
    answers.answered('k', { answer: { embedding: [1] }, usage });
    answers.inputOver();
    expect(ended()).toBe('not yet');
    settle();
    await new Promise((resolve) => setImmediate(resolve));
    expect(ended()).toBe(failure ?? 'complete');
  }
});

test('an error is shared with all that is told beside it, and the end waits for those that wait', async () => {
  const { answers, seen, ended } = shared('generate');
  await answers.has('k', held(0));
  await answers.has('k', held(1));
  answers.inputOver();
  expect(ended()).toBe('not yet');
  answers.answered('k', { ...failed, beside: { text: 'cut o' } });
  expect(outcomes(seen)).toEqual([[1, { ...failed, beside: { text: 'cut o' } }]]);
  expect(ended()).toBe('complete');
});
