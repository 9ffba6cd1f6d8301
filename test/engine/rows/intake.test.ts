import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { AnswerStore, KeptAnswer } from '../../../src/KeptAnswer.js';
import { RunRecorder } from '../../../src/engine/execution/RunRecorder.js';
import { ActiveRow, type OrderedResult } from '../../../src/engine/rows/ActiveRow.js';
import { ByteLedger } from '../../../src/collections/ByteLedger.js';
import { InFlight } from '../../../src/engine/rows/InFlight.js';
import { RecentAnswers } from '../../../src/engine/rows/RecentAnswers.js';
import { SharedAnswers } from '../../../src/engine/rows/SharedAnswers.js';
import { intake } from '../../../src/engine/rows/intake.js';
import type { Row, RowInput, RowResult } from '../../../src/Row.js';
import { letterTokenizer } from '../../support/wordTokenizer.js';

/** @param sharesAnswers off, so that every row shows what becomes of it */
async function take(
  rows: Iterable<unknown>,
  limit = 100,
  sharesAnswers = false,
): Promise<{ accepted: number[][]; rejected: OrderedResult[]; complete: boolean }> {
  const recorder = new RunRecorder({ model: '', policy: {}, loadSeconds: 0, memory: () => ({}) });
  const answers = new SharedAnswers<'generate', RowResult>(
    'generate',
    recorder,
    sharesAnswers ? new RecentAnswers({ rows: 10, bytes: 10_000 }) : undefined,
  );
  const rejected: OrderedResult[] = [];
  let complete = false;
  answers.results$.subscribe({ next: (result) => rejected.push(result), complete: () => (complete = true) });
  const accepted: number[][] = [];
  const source = intake(rows as Iterable<RowInput>, {
    options: { maxNewTokens: 4 },
    tokenizer: letterTokenizer(),
    limits: { contextTokens: 20, vocabularySize: 27 },
    rowLimit: () => ({ tokens: 12, by: 'pages' as const }),
    inFlight: new InFlight(limit, new ByteLedger(Infinity).account()),
    recorder,
    answers,
    resultIdentity: 'engine',
    answerFormat: () => Promise.reject(new Error('no row asks for one')),
  });
  for await (const row of source) accepted.push([...row.sequence.tokens]);
  return { accepted, rejected, complete };
}
const codes = (rejected: readonly OrderedResult[]): unknown[] =>
  rejected.map(({ sequence, result }) => [sequence, result.id, result.index, result.error?.code]);

describe('intake', () => {
  test('prepares good rows, and turns bad ones into results in their place', async () => {
    const { accepted, rejected, complete } = await take([
      { prompt: 'a' },
      { prompt: '' },
      { prompt: 'b' },
      null,
      7,
      { id: 'z', error: { code: 'invalid-json', message: 'line 6' } },
    ]);
    expect(accepted).toEqual([[0], [1]]);
    expect(codes(rejected)).toEqual([
      [1, 2, 1, 'empty-prompt'],
      [3, 4, 3, 'invalid-row'],
      [4, 5, 4, 'invalid-row'],
      [5, 'z', 5, 'invalid-json'],
    ]);
    expect(complete).toBe(true);
  });

  test("an id may be given once; a missing id is the row's number, which another row may be given", async () => {
    const { rejected } = await take([
      { prompt: 'a', id: 'x' },
      { prompt: 'a', id: 'x' },
      { prompt: 'a', id: 4 },
      { prompt: 'a' },
      { prompt: 'a', id: '4' },
      { prompt: 'a', id: NaN },
    ]);
    expect(codes(rejected)).toEqual([
      [1, 'x', 1, 'duplicate-id'],
      [5, 6, 5, 'invalid-row'],
    ]);
  });

  test('a bad row costs no good one its result, and its own error goes before that of its id', async () => {
    const { accepted, rejected } = await take([
      { id: 1, prompt: 'a' },
      null,
      { id: 2, prompt: 'b' },
      { id: 1, prompt: '' },
      { id: 1, error: { code: 'invalid-json', message: 'm' } },
      { id: 1, prompt: 'c' },
      { id: 7, prompt: 'c', duplicate: true },
      { id: 1, prompt: 'd', duplicate: false },
    ]);
    expect(accepted).toEqual([[0], [1], [3]]);
    expect(rejected.map(({ result }) => [result.id, result.index, result.error?.code])).toEqual([
      [2, 1, 'invalid-row'],
      [1, 3, 'empty-prompt'],
      [1, 4, 'invalid-json'],
      [1, 5, 'duplicate-id'],
      [7, 6, 'duplicate-id'],
    ]);
    expect(rejected[3]?.result.error?.message).toBe('id: found 1, which an earlier row has');
  });

  test.each<[unknown, string, string]>([
    [{ prompt: 'a', error: null }, 'none', ''],
    [{ prompt: 'a', error: undefined }, 'none', ''],
    [
      { prompt: 'a', id: null, index: null, messages: null, tokens: null, stop: null, seed: null, carry: null },
      'none',
      '',
    ],
    [
      { prompt: 'a', error: 'bad' },
      'invalid-row',
      'error: found "bad", expected {code, message} with strings, or nothing',
    ],
    [{ prompt: 'a', error: {} }, 'invalid-row', 'error: found an empty object, expected {code, message}'],
    [undefined, 'invalid-row', 'found undefined, expected an object with one of prompt, messages and tokens'],
    [[{ prompt: 'a' }], 'invalid-row', 'found an array of 1, expected an object'],
    [{ prompt: 'a', id: 1n }, 'invalid-row', 'id: found 1n, expected a string or a finite number'],
    [{ prompt: 'a', id: {} }, 'invalid-row', 'id: found an empty object'],
    [{ prompt: 'a', index: 'abc' }, 'invalid-row', 'index: found "abc", expected a whole number of at least 0'],
    [{ prompt: 'a', index: NaN }, 'invalid-row', 'index: found NaN'],
    [{ prompt: 'a', index: -3 }, 'invalid-row', 'index: found -3'],
    [{ prompt: 'a', index: {} }, 'invalid-row', 'index: found an empty object'],
    [
      {
        get prompt() {
          throw new Error('torn\ncursor');
        },
      },
      'invalid-row',
      'the row cannot be read: torn',
    ],
    [
      {
        messages: [
          {
            role: 'user',
            get content() {
              throw new Error('deep');
            },
          },
        ],
      },
      'invalid-row',
      'the row cannot be read: deep',
    ],
    [
      { prompt: Object.assign(Object.create(null) as object, { a: 1n }) },
      'invalid-row',
      'prompt: found an object with a, expected a string',
    ],
    [
      { prompt: null },
      'no-prompt',
      'found none of them (prompt is null), expected exactly one of prompt, messages and tokens',
    ],
  ])('an odd row, %#, is what it is', async (row, code, message) => {
    const { accepted, rejected } = await take([{ prompt: 'a' }, row, { prompt: 'b' }]);
    expect(accepted).toEqual(code === 'none' ? [[0], [0], [1]] : [[0], [1]]);
    expect(
      rejected.map(({ result }) => [
        result.id,
        result.index,
        result.error?.code,
        result.error?.message.slice(0, message.length),
      ]),
    ).toEqual(code === 'none' ? [] : [[2, 1, code, message]]);
  });

  test('whatever comes as a row, the others are unaffected', async () => {
    const odd = fc.anything({
      withBigInt: true,
      withNullPrototype: true,
      withObjectString: true,
      withSparseArray: true,
    });
    const field = fc.constantFrom(
      'id',
      'index',
      'prompt',
      'messages',
      'tokens',
      'stop',
      'seed',
      'error',
      'carry',
      'duplicate',
    );
    await fc.assert(
      fc.asyncProperty(fc.oneof(odd, fc.dictionary(field, odd)), async (row) => {
        const { accepted, rejected, complete } = await take([{ id: 'a', prompt: 'a' }, row, { id: 'b', prompt: 'b' }]);
        expect([accepted.length + rejected.length, complete]).toEqual([3, true]);
        for (const { result } of rejected)
          expect([typeof result.error?.code, typeof result.error?.message, Number.isSafeInteger(result.index)]).toEqual(
            ['string', 'string', true],
          );
      }),
      { numRuns: 500 },
    );
  });

  test('a row that could never have enough cache is refused, with what it needs', async () => {
    const { accepted, rejected } = await take([{ prompt: 'abcdefghi' }, { prompt: 'abcdefghij' }]);
    expect(accepted).toHaveLength(1);
    expect(rejected[0]?.result.error).toEqual({
      code: 'memory',
      message: expect.stringContaining(
        'may need 13 tokens of KV cache, all the KV cache there is holds 12: give more memory',
      ),
    });
  });

  test('keeps the index of a resumed job, and what is carried', async () => {
    const { rejected } = await take([{ prompt: '', index: 41, carry: { label: 'x' } }]);
    expect(rejected[0]?.result).toMatchObject({ id: 42, index: 41, carry: { label: 'x' } });
  });

  test('samples are rows of their own, with a seed each, and a resumed job asks for some of them', async () => {
    const rows: Row[] = [
      { prompt: 'a', samples: 3, seed: 5, temperature: 1 },
      { prompt: 'b' },
      { prompt: 'c', samples: 4, wantedSamples: [3, 1, 3], seed: 2 ** 32 - 1, temperature: 1 },
      { prompt: '', samples: 2 },
      { prompt: 'd', samples: 1 },
    ];
    const seen: unknown[] = [];
    const recorder = new RunRecorder({ model: '', policy: {}, loadSeconds: 0, memory: () => ({}) });
    const answers = new SharedAnswers<'generate', RowResult>(
      'generate',
      recorder,
      new RecentAnswers({ rows: 10, bytes: 10_000 }),
    );
    answers.results$.subscribe(({ sequence, result: { id, sample, error } }) =>
      seen.push([sequence, id, sample, error?.code]),
    );
    const setup = {
      options: { maxNewTokens: 1 },
      tokenizer: letterTokenizer(),
      limits: { contextTokens: 20, vocabularySize: 27 },
      rowLimit: () => ({ tokens: 12, by: 'pages' as const }),
      inFlight: new InFlight(100, new ByteLedger(Infinity).account()),
      recorder,
      answers,
      resultIdentity: 'engine',
      answerFormat: () => Promise.reject(new Error('no row asks for one')),
    };
    for await (const row of intake(rows, setup)) {
      if (!(row instanceof ActiveRow)) throw new Error('no row asks for retries');
      const { sequence, result } =
        row.accept({ sampled: new Map([[1, { token: 3, logprob: 0, top: [] }]]), scored: new Map() }, 1) ?? {};
      seen.push([sequence, result?.id, result?.sample, row.sequence.seed]);
    }
    expect(seen).toEqual([
      [0, 1, 0, 5],
      [1, 1, 1, 6],
      [2, 1, 2, 7],
      [3, 2, undefined, 0],
      // As the rows with the seeds 2^32 and 2^32 + 2 have them.
      [4, 3, 1, 1],
      [5, 3, 3, 3],
      [6, 4, undefined, 'empty-prompt'],
      [7, 5, 0, 0],
    ]);
  });

  test.each<[Partial<Row>, string]>([
    [{ samples: 0 }, 'samples: found 0, expected a whole number from 1 to 65536'],
    [{ samples: 65_537 }, 'samples: found 65537, expected'],
    [{ samples: 1.5 }, 'samples: found 1.5, expected'],
    [{ samples: '3' as unknown as number }, 'samples: found "3", expected'],
    [
      { samples: 2, wantedSamples: [2] },
      'wantedSamples: found an array of 1, expected an array of whole numbers from 0 to 1',
    ],
    [{ samples: 2, wantedSamples: 7 as unknown as number[] }, 'wantedSamples: found 7, expected'],
    [{ samples: 2, wantedSamples: [] }, 'wantedSamples: found an array of 0, expected an array of whole numbers'],
  ])("samples that are none, %#, are the row's error: one, without a sample", async (row, message) => {
    const { accepted, rejected } = await take([{ prompt: 'a', ...row }, { prompt: 'b' }]);
    expect(accepted).toEqual([[1]]);
    expect(
      rejected.map(({ result }) => [
        result.index,
        result.sample,
        result.error?.code,
        result.error?.message.slice(0, message.length),
      ]),
    ).toEqual([[0, undefined, 'invalid-parameter', message]]);
  });

  test('a row that is equal to one under way waits for its answer, and is not computed', async () => {
    const { accepted, rejected, complete } = await take(
      [
        { prompt: 'a' },
        { prompt: 'b' },
        { prompt: 'a', id: 'again' },
        { prompt: 'a', seed: 4 },
        { prompt: 'a', temperature: 1 },
      ],
      100,
      true,
    );
    expect([accepted, rejected, complete]).toEqual([[[0], [1], [0]], [], false]);
  });

  test("rows with another's answer, computed or kept, have it under their own names, with what they carry", async () => {
    const recorder = new RunRecorder({ model: '', policy: {}, loadSeconds: 0, memory: () => ({}) });
    const kept: KeptAnswer = { text: 'x', tokens: [23, 24], finishReason: 'length' };
    let asked = 0;
    // What is equal to a row that is under way is not looked up.
    const store: AnswerStore = { get: () => (asked++ === 0 ? undefined : kept), put: () => undefined };
    const answers = new SharedAnswers<'generate', RowResult>(
      'generate',
      recorder,
      new RecentAnswers({ rows: 10, bytes: 10_000 }),
      store,
    );
    const seen: OrderedResult[] = [];
    answers.results$.subscribe((result) => seen.push(result));
    const setup = {
      options: { maxNewTokens: 1, logprobs: 1 },
      tokenizer: letterTokenizer(),
      limits: { contextTokens: 20, vocabularySize: 27 },
      rowLimit: () => ({ tokens: 12, by: 'pages' as const }),
      inFlight: new InFlight(100, new ByteLedger(Infinity).account()),
      recorder,
      answers,
      resultIdentity: 'engine',
      answerFormat: () => Promise.reject(new Error('no row asks for one')),
    };
    const rows: Row[] = [
      { prompt: 'ab', id: 'first', carry: { own: 1 } },
      { prompt: 'ab', id: 'waits', index: 7, samples: 1, carry: { own: 2 } },
      { prompt: 'c', id: 'kept', carry: { own: 3 } },
    ];
    const active: ActiveRow[] = [];
    for await (const row of intake(rows, setup)) if (row instanceof ActiveRow) active.push(row);
    expect(active).toHaveLength(1);
    const first = active[0]?.accept(
      { sampled: new Map([[1, { token: 3, logprob: -0.5, top: [{ token: 4, logprob: -2 }] }]]), scored: new Map() },
      1,
    )?.result;
    const answer = {
      text: 'd',
      tokens: [3],
      finishReason: 'length',
      usage: { promptTokens: 2, completionTokens: 1 },
      logprobs: [{ token: 3, logprob: -0.5, top: [{ token: 4, logprob: -2 }] }],
    };
    expect(first).toEqual({ id: 'first', index: 0, ...answer, carry: { own: 1 } });
    expect(seen).toEqual([
      {
        sequence: 2,
        result: { id: 'kept', index: 2, ...kept, usage: { promptTokens: 1, completionTokens: 2 }, carry: { own: 3 } },
      },
      { sequence: 1, result: { id: 'waits', index: 7, sample: 0, ...answer, carry: { own: 2 } } },
    ]);
  });

  test('waits at the limit of rows in flight', async () => {
    let pulled = 0;
    const rows = (function* () {
      for (; pulled < 10; pulled++) yield { prompt: 'a' };
    })();
    void take(rows, 3);
    for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
    expect(pulled).toBe(3);
  });
});
