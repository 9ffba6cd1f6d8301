import { readdirSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { dryRun, type DryRunOptions, type DryRunReport } from '../src/dryRun.js';
import { loadAddon } from '../src/bindings/loadAddon.js';
import { Engine } from '../src/index.js';
import type { Policy } from '../src/plan/Policy.js';
import { runJob } from '../src/jobs/runJob.js';
import type { RowResult } from '../src/Row.js';
import { CPU_MACHINE } from './plan/support/hardware.js';
import { TINY_MODEL, tinyModelWithTokenizer } from './cli/support.js';
import { readResults, temporaryFolder, writeLines } from './jobs/support/files.js';

const path = temporaryFolder();
let model: string;
let engine: Engine;
let names = 0;

beforeAll(async () => {
  model = tinyModelWithTokenizer(path('model'));
  engine = await Engine.open({ model });
});
afterAll(() => engine.close());

function inputOf(rows: readonly unknown[]): string {
  names += 1;
  const input = path(`in-${names}.jsonl`);
  writeLines(input, rows);
  return input;
}

/** What a dry run says, beside the results of the run. */
async function both(
  rows: readonly unknown[],
  job: Omit<DryRunOptions, 'engine' | 'input'>,
): Promise<{ report: DryRunReport; results: RowResult[] }> {
  const input = inputOf(rows);
  const before = readdirSync(path('.'));
  const report = await dryRun({ ...job, input, engine: { model } });
  expect(readdirSync(path('.'))).toEqual(before);
  const output = path(`out-${names}.jsonl`);
  await runJob({ ...job, engine, input, output });
  return { report, results: readResults(output) };
}

/** Rows with an error, by what is wrong. */
function failuresOf(results: readonly RowResult[]): Record<string, number> {
  const codes: Record<string, number> = {};
  for (const { error } of results) if (error) codes[error.code] = (codes[error.code] ?? 0) + 1;
  return codes;
}

/** The lower one of the two in the middle. */
function median(values: readonly number[]): number | undefined {
  return [...values].sort((a, b) => a - b)[Math.ceil(values.length / 2) - 1];
}

describe('a dry run', () => {
  const schema = { type: 'object', properties: { a: { $ref: '#/nowhere' } } };
  const ROWS = [
    { id: 'a', prompt: 'one' },
    { id: 'b', prompt: 'three rows', maxNewTokens: 7 },
    'no json',
    { id: 'a', prompt: 'the same id' },
    { id: 'c', prompt: 'x'.repeat(5000) },
    { id: 'd', prompt: 'x', temperature: -1 },
    { id: 'e' },
    { id: 'f', prompt: 'held', responseFormat: { type: 'json_schema', schema } },
    { id: 'g', prompt: 'several', samples: 3 },
  ];

  test('calls those rows bad that the run does, with the same words', async () => {
    const { report, results } = await both(ROWS, { generate: { maxNewTokens: 4, temperature: 0.5 } });
    expect(report.failed).toEqual(failuresOf(results));
    expect(report.bad.length).toBeGreaterThanOrEqual(6);
    for (const { index, code, message } of report.bad)
      expect(results.find((result) => result.index === index)?.error).toEqual({ code, message });
  });

  test('counts rows, answers and tokens as the run does, and shows prompts as the model sees them', async () => {
    const { report, results } = await both(ROWS, { generate: { maxNewTokens: 4, temperature: 0.5, ignoreEos: true } });
    const answered = results.filter(({ error }) => !error);
    expect(report.rows).toBe(ROWS.length);
    expect(report.answers).toBe(answered.length);
    const sum = (of: (result: RowResult) => number): number => answered.reduce((total, each) => total + of(each), 0);
    expect(report.newTokens).toBe(sum(({ usage }) => usage.completionTokens));
    expect(report.promptTokens).toEqual({
      total: sum(({ usage }) => usage.promptTokens),
      median: median(answered.map(({ usage }) => usage.promptTokens)),
      max: results[1]?.usage.promptTokens,
      estimated: false,
    });
    expect(report.longest).toEqual({ id: 'b', index: 1 });
    expect(report.prompts.map(({ id, text }) => [id, text.includes(id === 'a' ? 'one' : '')])).toEqual([
      ['a', true],
      ['b', true],
      ['g', true],
    ]);
  });

  test.each([
    ['classify', { classify: { labels: ['yes', 'no'], labelPrior: 'N/A' } }],
    ['score', { score: { completions: ['yes', 'no'] } }],
    ['embed', { embed: {} }],
  ])('of rows to %s counts likewise', async (_name, job) => {
    const { report, results } = await both(ROWS.slice(0, 6), job);
    expect(report.failed).toEqual(failuresOf(results));
    const answered = results.filter(({ error }) => !error);
    expect(report.promptTokens.total).toBe(answered.reduce((total, { usage }) => total + usage.promptTokens, 0));
  });

  test('goes on where more rows are bad in succession than are in flight', async () => {
    const bad = Array.from({ length: 100 }, (_, nth) => ({ id: `bad ${nth}`, prompt: nth }));
    const rows = [{ prompt: 'first' }, ...bad, { prompt: 'last' }, ...bad.map(({ id }) => ({ id, prompt: 'again' }))];
    for (const job of [{ generate: { maxNewTokens: 2 } }, { embed: {} }]) {
      const { report, results } = await both(rows, job);
      expect(report.rows).toBe(202);
      expect(report.bad.map(({ index, code }) => [index, code])).toEqual(
        results.filter(({ error }) => error).map(({ index, error }) => [index, error?.code]),
      );
      expect(report.bad).toHaveLength(200);
    }
  });

  test('is of the rows that a limit or a sample leaves', async () => {
    const rows = Array.from({ length: 50 }, (_, at) => ({ id: at, prompt: 'x'.repeat(at + 1) }));
    expect((await both(rows, { limit: 3 })).report.rows).toBe(3);
    const { report, results } = await both(rows, { sample: 5, sampleSeed: 2 });
    expect([report.rows, results.length]).toEqual([5, 5]);
    expect(results.map(({ index }) => index)).toContain(report.longest?.index);
    expect(report.promptTokens.max).toBe(Math.max(...results.map(({ usage }) => usage.promptTokens)));
  });

  test('says that too many rows would fail', async () => {
    const input = inputOf(ROWS);
    const said = await dryRun({ engine: { model }, input, maxErrors: 3 });
    expect(said.stopped).toBe(true);
    expect(await dryRun({ engine: { model }, input, maxErrors: 30 })).not.toHaveProperty('stopped');
  });

  test('forecasts what its own rows take, by the plan that was made for the first ones', async () => {
    const machine = loadAddon().machine();
    const hardware = {
      ...CPU_MACHINE,
      machine: {
        processorName: machine.processorName,
        processors: machine.processors,
        memoryBytes: machine.memoryBytes,
      },
    };
    const onCpu = { gpu: 0, cpu: 1, disk: 0 };
    const policy: Policy = {
      ...{ schedule: 'diagonal', batchSize: 16, batches: 2, weights: onCpu, cache: onCpu, activations: onCpu },
      ...{ compressWeights: 'none', compressCache: 'none', cpuAttention: true },
    };
    const said = (count: number): Promise<DryRunReport> =>
      dryRun({
        engine: { model: TINY_MODEL, hardware, policy },
        input: Array.from({ length: count }, () => ({ tokens: [1, 9, 7, 3] })),
        generate: { maxNewTokens: 8 },
      });
    const [few, many] = [await said(64), await said(640)];
    expect(few.predicted).toMatchObject({ rows: 64, fits: true });
    const seconds = ({ predicted }: DryRunReport): number => predicted?.wallSeconds ?? NaN;
    expect(seconds(many) / seconds(few)).toBeCloseTo(10, 0);
  });

  test('refuses what the run refuses', async () => {
    const input = inputOf(ROWS);
    await expect(dryRun({ engine: { model }, input, generate: { temperature: 99 } })).rejects.toThrow('temperature');
    await expect(dryRun({ engine: { model }, input: path('none.jsonl') })).rejects.toThrow('none.jsonl');
    await expect(dryRun({ engine: { model: path('none') }, input })).rejects.toThrow('none');
    const job = { generate: { responseFormat: { type: 'json_schema' as const, schema } } };
    await expect(dryRun({ engine: { model }, input, ...job })).rejects.toThrow('nowhere');
  });
});
