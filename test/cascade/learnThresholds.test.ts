import { expect, test } from '@jest/globals';
import { Cascade } from '../../src/cascade/Cascade.js';
import { saidBy } from '../../src/cascade/confidence.js';
import { KeptSample } from '../../src/cascade/KeptSample.js';
import { leastCascadeSample, learnThresholds } from '../../src/cascade/learnThresholds.js';
import type { CascadeEngine, CascadeStage } from '../../src/cascade/CascadeStage.js';
import type { ClassifyResult } from '../../src/Results.js';
import type { RowInput } from '../../src/Row.js';
import { promptOf } from './support.js';

const usage = { promptTokens: 1, completionTokens: 1 };

/** Says of a row's number what the table says. */
function table(answers: readonly (readonly [label: string, probability: number])[]): CascadeEngine {
  return {
    async *classify(rows) {
      for await (const row of rows) {
        const [label = '', probability = 0] = answers[Number(promptOf(row))] ?? [];
        const { id = 0, index = 0 } = row;
        yield { id, index, label, probability, probabilities: {}, usage } satisfies ClassifyResult;
      }
    },
  };
}

const ROWS = 1000;
const rows = Array.from({ length: ROWS }, (_, at): RowInput => ({ prompt: String(at) }));
const large = rows.map((_, at) => [at % 3 === 0 ? 'x' : 'y', 0.9] as const);
/** Surely right in 700 rows, else half of the time. */
const small = rows.map((_, at) => {
  const [right] = large[at] ?? ['x'];
  const other = right === 'x' ? 'y' : 'x';
  return at < 700 ? ([right, 0.9 + at / 10_000] as const) : ([at % 2 === 0 ? right : other, 0.6] as const);
});

test('a threshold is learnt that parts what agrees from what does not', async () => {
  const stages: CascadeStage[] = [
    { name: 'small', engine: table(small) },
    { name: 'large', engine: table(large) },
  ];
  const sample = rows.filter((_, at) => at % 2 === 0 || at % 5 === 0);
  const { stages: learnt, learned } = await learnThresholds(stages, sample, { target: 0.98, classify: {} });
  expect(learned).toMatchObject([{ name: 'small', rows: 600, stand: 420, differ: 0, threshold: 0.9 }]);
  expect(learnt.map(({ threshold }) => threshold)).toEqual([0.9, undefined]);
  let [agree, stood] = [0, 0];
  for await (const { index, label, model } of new Cascade(learnt).classify(rows)) {
    if (label === large[index]?.[0]) agree++;
    if (model === 'small') stood++;
  }
  expect([agree, stood]).toEqual([ROWS, 700]);
});

test('several thresholds share the promise', async () => {
  const stages: CascadeStage[] = [
    { name: 'a', engine: table(small) },
    { name: 'b', engine: table(small) },
    { name: 'c', engine: table(large) },
  ];
  const { learned } = await learnThresholds(stages, rows, { target: 0.9, certainty: 0.9, classify: {} });
  expect(learned.map(({ name }) => name)).toEqual(['a', 'b']);
  expect(learned.every(({ bound }) => bound <= 0.05)).toBe(true);
  expect(leastCascadeSample({ target: 0.98 }, 2)).toBe(149);
  expect(leastCascadeSample({ target: 0.98 }, 3)).toBeGreaterThan(298);
});

test('a sample that is too small lets no answer stand', async () => {
  const stages: CascadeStage[] = [
    { name: 'small', engine: table(small), threshold: 0.5 },
    { name: 'large', engine: table(large) },
  ];
  const { stages: learnt } = await learnThresholds(stages, rows.slice(0, 100), { target: 0.98, classify: {} });
  expect(learnt[0]?.threshold).toBeNull();
});

test.each([0, 1, 1.5, NaN, '98%'])('%j is no share to promise', (target) => {
  expect(() => leastCascadeSample({ target: target as number }, 2)).toThrow(/^target: found/);
});

test('answers are equal by what they mean', () => {
  const result = { id: 1, index: 0, usage };
  expect(saidBy({ ...result, text: ' a ' })).toBe(saidBy({ ...result, text: 'a' }));
  expect(saidBy({ ...result, text: 'x', value: { a: 1, b: [2] } })).toBe(
    saidBy({ ...result, text: 'y', value: { b: [2], a: 1 } }),
  );
  expect(saidBy({ ...result, text: '1', value: 1 })).not.toBe(saidBy({ ...result, text: '1', value: '1' }));
  expect(saidBy({ ...result, error: { code: 'schema', message: '' } })).toBeUndefined();
});

test('answers to the sample are kept for the run, and no others', async () => {
  const lasting = new Map<string, unknown>();
  const kept = new KeptSample({ get: () => undefined, put: (key, answer) => void lasting.set(key, answer) });
  const answer = { label: 'x', probability: 1, probabilities: {} };
  await kept.put('a', answer);
  kept.seal();
  await kept.put('b', answer);
  expect([await kept.get('a'), await kept.get('b')]).toEqual([answer, undefined]);
  expect([...lasting.keys()]).toEqual(['a', 'b']);
});
