import { expect, test } from '@jest/globals';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { describeTruth } from '../../src/cli/truthReport.js';
import { UsageError } from '../../src/errors/UsageError.js';
import { runJob } from '../../src/jobs/runJob.js';
import type { RowGenerator } from '../../src/jobs/JobOptions.js';
import { checkTruth, Truth } from '../../src/jobs/Truth.js';
import type { AnyResult, ClassifyResult } from '../../src/Results.js';
import type { RowInput, RowResult } from '../../src/Row.js';

const usage = { promptTokens: 1, completionTokens: 1 };
const asks = (row: RowInput): string => ('prompt' in row && typeof row.prompt === 'string' ? row.prompt : '');
const sink = (): Writable => new Writable({ write: (_chunk, _encoding, done) => done() });

function judged(truth: Truth, expected: unknown, result: Partial<AnyResult>): void {
  truth.take({ index: 0, prompt: 'x', carry: { right: expected } });
  truth.judge([{ id: 1, index: 0, usage, ...result }]);
}

test('accuracy, confusion and calibration are those of the definition', () => {
  const truth = new Truth('right', undefined, false);
  const answers: readonly (readonly [right: string, label: string, probability: number])[] = [
    ['a', ' a', 0.95],
    ['a', 'b', 0.55],
    ['b', 'b', 1],
    ['b', 'b', 0.52],
  ];
  for (const [right, label, probability] of answers) judged(truth, right, { label, probability, probabilities: {} });
  judged(truth, null, { label: 'a', probability: 1, probabilities: {} });
  judged(truth, 'a', { error: { code: 'too-long', message: 'x' } });
  const report = truth.report();
  expect(report).toMatchObject({ rows: 4, unknown: 1, errors: 1, right: 3, accuracy: 0.75 });
  expect(report.confusion).toEqual({ a: { a: 1, b: 1 }, b: { b: 2 } });
  const bins = report.calibration?.bins ?? [];
  expect(bins.map(({ from, rows, accuracy }) => [from, rows, accuracy])).toEqual([
    [0.5, 2, 0.5],
    [0.9, 2, 1],
  ]);
  expect(report.calibration?.error).toBeCloseTo(0.5 * Math.abs(0.5 - 0.535) + 0.5 * (1 - 0.975), 12);
  expect(describeTruth(report)).toBe(
    'truth of right: 3 of 4 right (75.0%), expected calibration error 0.030, 1 without a truth, 1 with an error\n  a: 1 a, 1 b\n  b: 2 b',
  );
});

test('of several answers the one that is meant is compared', () => {
  const questions = [
    { name: 'tone', text: 'x' },
    { name: 'size', text: 'y' },
  ];
  const answers = {
    tone: { text: 'good', finishReason: 'stop', confidence: 0.5 },
    size: { text: '4', value: 4, finishReason: 'stop' },
  } as const;
  const size = new Truth('size=right', questions, false);
  judged(size, '4', { answers });
  judged(size, 5, { answers });
  expect(size.report()).toMatchObject({ answer: 'size', rows: 2, right: 1 });
  const failed = new Truth('tone=right', questions, false);
  judged(failed, 'x', { answers: { ...answers, tone: { ...answers.tone, error: { code: 'schema', message: 'x' } } } });
  expect(failed.report()).toMatchObject({ rows: 0, errors: 1, accuracy: 0 });
  expect(() => new Truth('right', questions, false)).toThrow(/expected NAME=COLUMN/);
  expect(() => new Truth('other=right', questions, false)).toThrow(UsageError);
  const property = new Truth('city=right', undefined, false);
  judged(property, 'Rom', {
    text: '{"city":"Rom"}',
    value: { city: 'Rom' },
    fieldConfidence: { city: { mean: 0.9, least: 0.8 } },
  });
  expect(property.report()).toMatchObject({ right: 1, calibration: { bins: [{ rows: 1, confidence: 0.9 }] } });
});

test.each<[expected: unknown, value: unknown, right: boolean]>([
  ['True', true, true],
  ['FALSE', false, true],
  ['1', true, true],
  ['no', false, false],
  ['4.0', 4, true],
  ['0.50', 0.5, true],
  [4n, 4, true],
  ['4', 5, false],
  ['four', 4, false],
  ['{"b": [1], "a": 2}', { a: 2, b: [1] }, true],
  [{ b: [1], a: 2 }, { a: 2, b: [1] }, true],
  ['{"a": 2}', { a: 3 }, false],
  ['Rom', { city: 'Rom' }, true],
  ['3.0', { stars: 3 }, true],
  ['[1,2]', [1, 2], true],
])('%j is the truth of the value %j: %j', (expected, value, right) => {
  const truth = new Truth('right', undefined, false);
  judged(truth, expected, { text: JSON.stringify(value), value, confidence: 0.5 });
  expect(truth.report()).toMatchObject({ rows: 1, right: Number(right) });
});

test('texts of choices are themselves, and long ones are compared to their ends', () => {
  const truth = new Truth('right', undefined, false);
  judged(truth, '4.0', { text: '4', value: '4' });
  judged(truth, `${'x'.repeat(300)}a`, { text: `${'x'.repeat(300)}b` });
  judged(truth, `${'x'.repeat(100_000)}a`, { text: `${'x'.repeat(100_000)}b` });
  expect(truth.report()).toMatchObject({ rows: 3, right: 0 });
  judged(truth, `${'x'.repeat(100_000)}a`, { text: `${'x'.repeat(100_000)}a` });
  expect(truth.report()).toMatchObject({ rows: 4, right: 1 });
});

test('what a program hands over that leads to itself is no truth', () => {
  const truth = new Truth('right', undefined, false);
  const round: unknown[] = [];
  round.push(round);
  judged(truth, round, { text: 'a' });
  expect(truth.report()).toMatchObject({ rows: 0, unknown: 1 });
});

test('a property that is meant is compared, and one that an answer lacks is none', () => {
  const truth = new Truth('city=right', undefined, false);
  judged(truth, 'Rom', { text: '{"town":"Rom"}', value: { town: 'Rom' } });
  expect(truth.report()).toMatchObject({ rows: 0, errors: 1 });
});

test('of a cascade it is said how right each model was', () => {
  const truth = new Truth('right', undefined, false);
  judged(truth, 'a', { label: 'a', probability: 1, probabilities: {}, model: 'small' });
  judged(truth, 'b', { label: 'a', probability: 1, probabilities: {}, model: 'small' });
  judged(truth, 'a', { label: 'a', probability: 1, probabilities: {}, model: 'large' });
  expect(truth.report().models).toEqual({ small: { rows: 2, right: 1 }, large: { rows: 1, right: 1 } });
  expect(describeTruth(truth.report())).toMatch(/2 of 3 right \(66.7%\), 1 of 2 by small, 1 of 1 by large/);
});

test('a column that a table does not have is refused before a row is answered', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'spillway-truth-'));
  await writeFile(join(folder, 'in.csv'), 'prompt,right\na,a\n');
  const engine: RowGenerator = {
    generate: () => {
      throw new Error('it was asked');
    },
  };
  await expect(
    runJob({ engine, input: join(folder, 'in.csv'), output: sink(), generate: {}, truth: 'rigth' }),
  ).rejects.toThrow(/^truth: found the column "rigth", expected one of the input's: prompt, right.*did you mean/i);
  await rm(folder, { recursive: true });
});

test('many different texts take no room without end', () => {
  const truth = new Truth('right', undefined, false);
  for (let nth = 0; nth < 2000; nth++) judged(truth, `t${nth}`, { text: `${nth}`.repeat(1000), confidence: 0.5 });
  const { confusion, rows } = truth.report();
  expect(rows).toBe(2000);
  expect(Object.keys(confusion).length).toBeLessThanOrEqual(257);
});

test.each([5, '', '=a', 'a='])('%j is no column', (value) => {
  expect(() => {
    checkTruth('truth', value);
  }).toThrow(/^truth: found/);
});

test('jobs compare with a column of their input, which results do not carry for that', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'spillway-truth-'));
  await writeFile(join(folder, 'in.csv'), 'prompt,right\na,a\nb,a\nc,\n');
  await writeFile(join(folder, 'in.jsonl'), '{"prompt":"a","right":"a"}\n{"prompt":"b","right":"b"}\n');
  const carried: unknown[] = [];
  const engine: RowGenerator = {
    async *generate(rows) {
      for await (const row of rows) {
        carried.push(row.carry);
        const { id = 0, index = 0 } = row;
        yield {
          id,
          index,
          text: asks(row),
          tokens: [],
          finishReason: 'stop',
          confidence: 0.7,
          usage,
        } satisfies RowResult;
      }
    },
    async *classify(rows) {
      for await (const row of rows) {
        const { id = 0, index = 0 } = row;
        yield { id, index, label: asks(row), probability: 0.5, probabilities: {}, usage } satisfies ClassifyResult;
      }
    },
  };
  const lines = await runJob({ engine, input: join(folder, 'in.jsonl'), output: sink(), generate: {}, truth: 'right' });
  expect(lines.truth).toMatchObject({ column: 'right', rows: 2, right: 2, accuracy: 1 });
  expect(carried).toEqual([undefined, undefined]);
  const table = await runJob({
    engine,
    input: join(folder, 'in.csv'),
    output: join(folder, 'out.csv'),
    classify: { labels: ['a', 'b'] },
    truth: 'right',
  });
  expect(table.truth).toMatchObject({ rows: 2, unknown: 1, right: 1, confusion: { a: { a: 1, b: 1 } } });
  const input = join(folder, 'in.jsonl');
  await expect(runJob({ engine, input, output: sink(), score: {}, truth: 'right' })).rejects.toThrow(
    /truth: found it beside score/,
  );
  await expect(runJob({ engine, input, output: sink(), generate: { samples: 2 }, truth: 'right' })).rejects.toThrow(
    /truth: found it beside samples/,
  );
  await rm(folder, { recursive: true });
});
