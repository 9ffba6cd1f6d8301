import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { dryRun } from '../../src/dryRun.js';
import { Engine } from '../../src/Engine.js';
import { readRows } from '../../src/jobs/input/readRows.js';
import type { JobOptions } from '../../src/jobs/JobOptions.js';
import { runJob } from '../../src/jobs/runJob.js';
import type { GenerateOptions, RowResult } from '../../src/Row.js';
import { describeGrammars } from '../support/grammars.js';
import { tinyChatModel } from '../support/tinyChatModel.js';

const QUESTIONS = [
  { name: 'tone', text: 'Tone?', choices: ['good', 'bad'] },
  { name: 'size', text: 'Size?', schema: { type: 'integer', minimum: 0, maximum: 99 } },
  { name: 'why', text: 'Why {{answers.tone}}?', pattern: '[a-c]{2}' },
];

describeGrammars('jobs that ask several questions a row', () => {
  let model: Awaited<ReturnType<typeof tinyChatModel>>;
  let engine: Engine;
  let folder: string;
  beforeAll(async () => {
    model = await tinyChatModel();
    engine = await Engine.open({ model: model.path, batchSize: 8, learn: false });
    folder = await mkdtemp(join(tmpdir(), 'spillway-questions-'));
    await writeFile(
      join(folder, 'in.csv'),
      `nr,body\n${Array.from({ length: 9 }, (_, nth) => `${nth},text ${nth}\n`).join('')}`,
    );
    await writeFile(
      join(folder, 'in.jsonl'),
      Array.from({ length: 9 }, (_, nth) => `${JSON.stringify({ prompt: `text ${nth}`, mark: nth })}\n`).join('') +
        '{"prompt":5}\n{"messages":[]}\n{"prompt":"x","samples":2}\n',
    );
  });
  afterAll(async () => {
    await engine.close();
    await model[Symbol.asyncDispose]();
    await rm(folder, { recursive: true, force: true });
  });
  const generate: GenerateOptions = { questions: QUESTIONS, maxNewTokens: 8 };
  const job = async (from: string, to: string, options: Partial<JobOptions> = {}): Promise<string> => {
    const output = join(folder, to);
    await runJob({ engine, input: join(folder, from), output, generate, ...options });
    return output;
  };
  const lines = async (path: string): Promise<RowResult[]> =>
    (await readFile(path, 'utf8'))
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line) as RowResult);

  test('have a line a row, with the answers by name', async () => {
    const results = await lines(await job('in.jsonl', 'out.jsonl', { carryFields: true }));
    expect(results).toHaveLength(12);
    for (const [nth, { id, index, answers, usage, ...rest }] of results.slice(0, 9).entries()) {
      expect([id, index]).toEqual([nth + 1, nth]);
      expect(Object.keys(answers ?? {})).toEqual(['tone', 'size', 'why']);
      expect(answers?.['tone']).toMatchObject({
        text: expect.stringMatching(/^(good|bad)$/) as unknown,
        value: answers?.['tone']?.text,
      });
      expect(answers?.['size']?.value).toBe(Number(answers?.['size']?.text));
      for (const { confidence = NaN, leastConfidence = NaN } of Object.values(answers ?? {})) {
        expect(confidence).toBeGreaterThan(0);
        expect(leastConfidence).toBeLessThanOrEqual(confidence);
      }
      expect(usage.promptTokens).toBeGreaterThan(0);
      expect(rest).toEqual({ finishReason: 'stop', confidence: expect.any(Number) as unknown, row: { mark: nth } });
    }
    expect(results.slice(9).map(({ error }) => error?.code)).toEqual([
      'invalid-row',
      expect.any(String),
      'invalid-parameter',
    ]);
  });

  test('a dry run calls the same rows bad, and counts the questions of the others', async () => {
    const input = join(folder, 'in.jsonl');
    const report = await dryRun({ input, generate, engine: { model: model.path, learn: false } });
    const results = await lines(await job('in.jsonl', 'again.jsonl'));
    const failed = results.filter(({ error }) => error);
    expect(report.bad.map(({ index, code }) => [index, code])).toEqual(
      failed.map(({ index, error }) => [index, error?.code]),
    );
    expect(report.rows).toBe(12);
    expect(report.answers).toBe(27);
    expect(report.prompts[0]?.text).toContain('text 0\n\nTone?');
  });

  test('tables have a column for each, of its type', async () => {
    const templated = { ...generate, promptTemplate: 'Text: {{body}}' };
    const [header, first] = (await readFile(await job('in.csv', 'out.csv', { generate: templated }), 'utf8')).split(
      '\n',
    );
    expect(header).toBe(
      'nr,body,tone,tone_confidence,size,size_confidence,why,why_confidence,text,finish_reason,error_code,error_message,prompt_tokens,completion_tokens,confidence',
    );
    expect(first).toMatch(/^0,text 0,(good|bad),[\d.e-]+,\d+,[\d.e-]+,[a-c]{2},[\d.e-]+,,stop,,,\d+,\d+,[\d.e-]+$/);
    const file = await job('in.csv', 'out.parquet', { generate: templated, resultPrefix: 'llm_' });
    const values: (readonly unknown[])[] = [];
    for await (const row of readRows(file, { carryFields: true, templated: true })) {
      const { fields = {} } = row as { fields?: Readonly<Record<string, unknown>> };
      values.push([typeof fields['llm_tone'], typeof fields['llm_size'], typeof fields['llm_why_confidence']]);
    }
    expect(values[0]).toEqual(['string', 'number', 'number']);
    await expect(
      job('in.csv', 'taken.csv', {
        generate: { questions: [{ name: 'body', text: 'x' }], promptTemplate: '{{body}}' },
      }),
    ).rejects.toThrow('found two columns "body"');
  });

  test('go on with whole rows, and with the same questions alone', async () => {
    const whole = await readFile(await job('in.jsonl', 'whole.jsonl'), 'utf8');
    const part = join(folder, 'part.jsonl');
    await job('in.jsonl', 'part.jsonl', { limit: 4 });
    await expect(
      job('in.jsonl', 'part.jsonl', {
        resume: true,
        generate: { ...generate, questions: QUESTIONS.slice(0, 2) },
      }),
    ).rejects.toThrow('questions');
    await job('in.jsonl', 'part.jsonl', { resume: true });
    expect(await readFile(part, 'utf8')).toBe(whole);
  });

  test('are refused in a format that has one answer a row', async () => {
    await expect(job('in.jsonl', 'batch.jsonl', { outputFormat: 'openai-batch' })).rejects.toThrow(
      /openai-batch beside questions/,
    );
    await expect(job('in.jsonl', 's.jsonl', { generate: { ...generate, samples: 2 } })).rejects.toThrow(
      /samples: found it beside questions/,
    );
  });
});
