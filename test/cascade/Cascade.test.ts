import { expect, test } from '@jest/globals';
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import { from, lastValueFrom, Subject, toArray } from 'rxjs';
import { Cascade } from '../../src/cascade/Cascade.js';
import type { CascadeStage } from '../../src/cascade/CascadeStage.js';
import { UsageError } from '../../src/errors/UsageError.js';
import { offloadGenerate } from '../../src/operators/offloadGenerate.js';
import type { RowInput, RowResult } from '../../src/Row.js';
import { asWritten, stubEngine, type StubCalls } from './support.js';

const two = (options?: Parameters<typeof stubEngine>[2]): Cascade =>
  new Cascade([
    { name: 'small', engine: stubEngine('small', asWritten, options), threshold: 0.8 },
    { name: 'large', engine: stubEngine('large', () => 0.1) },
  ]);

async function all<T>(results: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = [];
  for await (const result of results) list.push(result);
  return list;
}

const rowsOf = (...confidences: number[]): RowInput[] => confidences.map((each) => ({ prompt: String(each) }));

test('rows under the line go on, and results say in order who answered, and how sure', async () => {
  const results = await all(two().generate(rowsOf(0.9, 0.5, 0.8, 0.79)));
  expect(results.map(({ id, index, text, model, confidence }) => [id, index, text, model, confidence])).toEqual([
    [1, 0, 'small:0.9', 'small', 0.9],
    [2, 1, 'large:0.5', 'large', 0.1],
    [3, 2, 'small:0.8', 'small', 0.8],
    [4, 3, 'large:0.79', 'large', 0.1],
  ]);
});

test('labels go on by their probability', async () => {
  const results = await all(two().classify(rowsOf(0.9, 0.5), { labels: ['a', 'b'] }));
  expect(results.map(({ label, model }) => [label, model])).toEqual([
    ['small:0.9', 'small'],
    ['large:0.5', 'large'],
  ]);
});

test('errors of a model go on to the next one, bad rows and equal ids are errors, and what rows carry stays theirs', async () => {
  const cascade = two({ fails: (prompt) => prompt === '1' });
  const bad = { error: { code: 'invalid-json', message: 'x' } } as const;
  const carry = { kept: Symbol('anything') };
  const rows: RowInput[] = [
    { id: 'a', prompt: '1', carry },
    { id: 'b', ...bad },
    { id: 'a', prompt: '0.9' },
    { id: 'c', prompt: '0.9', samples: 2 },
    { id: 7, index: 40, prompt: '0.9' },
  ];
  const results = await all(cascade.generate(rows));
  expect(results.map(({ id, index, model, error }) => [id, index, model ?? error?.code])).toEqual([
    ['a', 0, 'large'],
    ['b', 1, 'invalid-json'],
    ['a', 2, 'duplicate-id'],
    ['c', 3, 'invalid-parameter'],
    [7, 40, 'small'],
  ]);
  expect(results[0]?.carry).toBe(carry);
});

test('a row that the last model refuses has its error, and says no model', async () => {
  const cascade = new Cascade([
    { name: 'small', engine: stubEngine('small', () => 0), threshold: 0.5 },
    { name: 'large', engine: stubEngine('large', () => 1, { fails: () => true }) },
  ]);
  const [result] = await all(cascade.generate(rowsOf(1)));
  expect(result).toMatchObject({ id: 1, index: 0, error: { message: 'too long for large' } });
  expect(result).not.toHaveProperty('model');
});

test('a model none of whose answers stand is not asked', async () => {
  const calls: StubCalls = { rows: 0, open: 0, mostOpen: 0 };
  const cascade = new Cascade([
    { name: 'small', engine: stubEngine('small', () => 1, { calls }), threshold: null },
    { name: 'large', engine: stubEngine('large', () => 1) },
  ]);
  expect((await all(cascade.generate(rowsOf(1, 1)))).map(({ model }) => model)).toEqual(['large', 'large']);
  expect(calls.rows).toBe(0);
});

/** Stages that open stubs, of which never two are open. */
function opening(calls: StubCalls, opened: string[]): CascadeStage[] {
  const open = (name: string, sure: (prompt: string) => number) => async () => {
    await sleep(0);
    opened.push(name);
    calls.open += 1;
    calls.mostOpen = Math.max(calls.mostOpen, calls.open);
    return {
      ...stubEngine(name, sure, { calls }),
      [Symbol.asyncDispose]: async () => {
        await sleep(0);
        calls.open -= 1;
      },
    };
  };
  return [
    { name: 'a', threshold: 0.9, open: open('a', asWritten), resultIdentity: { stub: 'a' } },
    { name: 'b', threshold: 0.5, open: open('b', (prompt) => asWritten(prompt) * 2), resultIdentity: { stub: 'b' } },
    { name: 'c', open: open('c', () => 1), resultIdentity: { stub: 'c' } },
  ];
}

test('models that are opened take turns, one at a time, with as many rows as may wait', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.constantFrom(0.95, 0.4, 0.1), { maxLength: 200 }),
      fc.constantFrom('1KiB', '8KiB', undefined),
      fc.constantFrom('input' as const, 'completion' as const),
      async (confidences, bytes, order) => {
        const calls: StubCalls = { rows: 0, open: 0, mostOpen: 0 };
        const opened: string[] = [];
        const cascade = new Cascade(opening(calls, opened));
        const results = await all(
          cascade.generate(rowsOf(...confidences), { order, ...(bytes && { lookAhead: { bytes } }) }),
        );
        const byIndex = order === 'input' ? results : [...results].sort((a, b) => a.index - b.index);
        expect(byIndex.map(({ index, model }) => [index, model])).toEqual(
          confidences.map((each, at) => [at, each > 0.9 ? 'a' : each >= 0.25 ? 'b' : 'c']),
        );
        expect(calls.open).toBe(0);
        expect(calls.mostOpen).toBeLessThanOrEqual(1);
        if (bytes === undefined) expect(opened.length).toBeLessThanOrEqual(3);
      },
    ),
    { numRuns: 60 },
  );
});

test('what waits is bounded, however many rows there are', async () => {
  const opened: string[] = [];
  const cascade = new Cascade(opening({ rows: 0, open: 0, mostOpen: 0 }, opened));
  let [read, done, most] = [0, 0, 0];
  const rows = (function* (): Generator<RowInput> {
    for (; read < 20_000; read++) {
      most = Math.max(most, read - done);
      yield { prompt: read % 2 === 0 ? '0.95' : '0.1' };
    }
  })();
  for await (const { index } of cascade.generate(rows, { lookAhead: { bytes: '256KiB' } })) {
    expect(index).toBe(done);
    done += 1;
  }
  expect(done).toBe(20_000);
  expect(most).toBeLessThan(4000);
  expect(opened.length).toBeGreaterThan(9);
});

test('an engine that is another than was said is refused when it is opened', async () => {
  const [first, ...others] = opening({ rows: 0, open: 0, mostOpen: 0 }, []);
  if (!first) throw new Error('no stage');
  const cascade = new Cascade([{ ...first, resultIdentity: { stub: 'other' } }, ...others]);
  await expect(all(cascade.generate(rowsOf(1)))).rejects.toThrow(/a: found an engine whose results are not those/);
});

test('the identity is that of all models, with their names and lines', () => {
  expect(two().resultIdentity).toEqual({
    cascade: [
      { threshold: 0.8, name: 'small', identity: { stub: 'small' } },
      { name: 'large', identity: { stub: 'large' } },
    ],
  });
  const unknown = new Cascade([
    { name: 'a', engine: { generate: stubEngine('a', () => 1).generate }, threshold: 0 },
    { name: 'b', engine: stubEngine('b', () => 1) },
  ]);
  expect(unknown.resultIdentity).toBeUndefined();
});

test('a stream that comes row by row is answered row by row, as an operator', async () => {
  const rows$ = new Subject<RowInput>();
  const results: RowResult[] = [];
  const seen = lastValueFrom(rows$.pipe(offloadGenerate(two()), toArray()));
  const done = rows$.pipe(offloadGenerate(two())).subscribe((result) => results.push(result));
  rows$.next({ prompt: '0.1' });
  while (results.length < 1) await sleep(5);
  rows$.next({ prompt: '0.9' });
  while (results.length < 2) await sleep(5);
  expect(results.map(({ model }) => model)).toEqual(['large', 'small']);
  rows$.complete();
  expect((await seen).map(({ text }) => text)).toEqual(['large:0.1', 'small:0.9']);
  done.unsubscribe();
  expect(await lastValueFrom(from(rowsOf(0.1)).pipe(offloadGenerate(two())))).toMatchObject({ model: 'large' });
});

test('an abort ends it with what was finished, and leaving it closes what was opened', async () => {
  const calls: StubCalls = { rows: 0, open: 0, mostOpen: 0 };
  const ending = new AbortController();
  const cascade = new Cascade(opening(calls, []));
  const got: number[] = [];
  const run = async (): Promise<void> => {
    for await (const { index } of cascade.generate(rowsOf(0.95, 0.95, 0.1, 0.95, 0.95), { signal: ending.signal })) {
      got.push(index);
      if (index === 1) ending.abort();
    }
  };
  await expect(run()).rejects.toThrow();
  expect(got.slice(0, 2)).toEqual([0, 1]);
  expect(calls.open).toBe(0);
  for await (const { index } of cascade.generate(rowsOf(0.95, 0.95, 0.1))) if (index === 0) break;
  expect(calls.open).toBe(0);
  await expect(all(cascade.generate(rowsOf(1), { signal: ending.signal }))).rejects.toThrow();
});

test('what an input throws comes after the results of the rows before', async () => {
  const rows = (function* (): Generator<RowInput> {
    yield { prompt: '0.95' };
    throw new Error('torn');
  })();
  const got: RowResult[] = [];
  const run = async (): Promise<void> => {
    for await (const result of two().generate(rows)) got.push(result);
  };
  await expect(run()).rejects.toThrow('torn');
  expect(got.map(({ model }) => model)).toEqual(['small']);
});

test.each<[stages: unknown, message: RegExp]>([
  [undefined, /^stages: found/],
  [[{ name: 'a', engine: {}, threshold: 1 }], /^stages: found 1 models, expected a list of 2 to 8/],
  [
    [
      { name: 'a', engine: {} },
      { name: 'b', engine: {} },
    ],
    /stages\[0\].threshold: found none/,
  ],
  [
    [
      { name: 'a', engine: {}, threshold: 2 },
      { name: 'b', engine: {} },
    ],
    /stages\[0\].threshold: found 2/,
  ],
  [
    [
      { name: 'a', engine: {}, threshold: 1 },
      { name: 'b', engine: {}, threshold: 1 },
    ],
    /of the last model/,
  ],
  [
    [
      { name: 'a', engine: {}, threshold: 1 },
      { name: 'a', engine: {} },
    ],
    /which an earlier model is called/,
  ],
  [
    [
      { name: 'a', threshold: 1 },
      { name: 'b', engine: {} },
    ],
    /found no engine, expected one of engine and open/,
  ],
  [
    [
      { name: 'a', engine: {}, treshold: 1 },
      { name: 'b', engine: {} },
    ],
    /did you mean "?threshold/i,
  ],
])('%j is no cascade', (stages, message) => {
  expect(() => new Cascade(stages as CascadeStage[])).toThrow(message);
});

test('options that a cascade has no room for are refused', () => {
  expect(() => two().generate([], { samples: 2 })).toThrow(UsageError);
  expect(() => two().generate([], { onDelta: () => undefined })).toThrow(/onDelta: found it in a cascade/);
});
