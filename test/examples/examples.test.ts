import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { readdir, readFile, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { main as rxjsPipeline } from '../../examples/01-rxjs-pipeline.js';
import { main as etlJob } from '../../examples/02-etl-job.js';
import { main as customSchedule } from '../../examples/03-custom-schedule.js';
import { main as layersOnTwoEngines } from '../../examples/04-layers-on-two-engines.js';
import { main as tables } from '../../examples/05-tables.js';
import { main as classified } from '../../examples/06-classify.js';
import { main as extractToObject } from '../../examples/07-extract-to-object.js';
import { main as askQuestions } from '../../examples/09-questions.js';
import { main as pipelinesOfCalls } from '../../examples/08-pipelines-of-calls.js';
import { main as database } from '../../examples/10-database.js';
import { main as costModel } from '../../examples/11-cost-model.js';
import { main as cascade } from '../../examples/12-cascade.js';
import { main as longDocuments } from '../../examples/13-long-documents.js';
import { main as aiSdk } from '../../examples/14-ai-sdk.js';
import { collect } from '../jobs/support/files.js';
import { readRows } from '../../src/jobs/input/readRows.js';
import { testGrammars } from '../support/grammars.js';
import { tinyChatModel } from '../support/tinyChatModel.js';

/** The examples on a tiny random model: what they say means nothing, how they work is checked. */
describe('examples', () => {
  let model: Awaited<ReturnType<typeof tinyChatModel>>;
  let print: jest.SpiedFunction<typeof console.log>;

  beforeAll(async () => {
    model = await tinyChatModel();
    print = jest.spyOn(console, 'log').mockImplementation(() => undefined);
  });
  afterAll(async () => {
    print.mockRestore();
    await model[Symbol.asyncDispose]();
  });

  test('all of them are tested here', async () => {
    const names: string[] = await readdir('examples');
    expect(names.filter((name) => name.endsWith('.ts')).sort()).toEqual([
      '01-rxjs-pipeline.ts',
      '02-etl-job.ts',
      '03-custom-schedule.ts',
      '04-layers-on-two-engines.ts',
      '05-tables.ts',
      '06-classify.ts',
      '07-extract-to-object.ts',
      '08-pipelines-of-calls.ts',
      '09-questions.ts',
      '10-database.ts',
      '11-cost-model.ts',
      '12-cascade.ts',
      '13-long-documents.ts',
      '14-ai-sdk.ts',
    ]);
  });

  test('the cascade labels all reviews, and says by whom', async () => {
    const { summary, rows } = await cascade(model.path);
    expect(summary).toMatchObject({ rows: 4, done: 4, failed: 0, truth: { rows: 4, errors: 0 } });
    for (const [label, by] of rows) {
      expect([' good', ' bad']).toContain(label);
      expect(['small', 'large']).toContain(by);
    }
    expect(rows).toHaveLength(4);
  });

  test('long documents are answered in parts that are merged, and embedded passage by passage', async () => {
    const { summary, passages } = await longDocuments(model.path);
    expect(summary).toMatchObject({ id: 'mill', parts: { levels: 1 } });
    expect(summary?.parts?.count).toBeGreaterThan(5);
    expect(passages?.chunks?.length).toBeGreaterThan(30);
    expect(print).toHaveBeenCalledWith(expect.stringMatching(/^mill, \d+ parts, merged in 1 levels: /));
  });

  test('the AI SDK answers, streams, embeds, decides, and has a batch', async () => {
    const { texts, batched, urgent } = await aiSdk(model.path);
    expect(texts).toHaveLength(3);
    expect(batched.map((line) => line.split(':')[0])).toEqual(['Bern', 'Oslo', 'Kyoto']);
    expect(urgent).toBeGreaterThan(0);
    expect(urgent).toBeLessThan(1);
  });

  test('the RxJS pipeline answers every review, in order', async () => {
    const results = await rxjsPipeline(model.path);
    expect(results.map(({ id, error }) => [id, error])).toEqual([
      [1, undefined],
      [2, undefined],
      [3, undefined],
    ]);
    for (const { usage } of results) expect(usage.completionTokens).toBeLessThanOrEqual(8);
    expect(print).toHaveBeenCalledWith(expect.stringMatching(/^1: /));
  });

  test('the table of a database has each row once, though the job broke off', async () => {
    const rows = await database(model.path);
    expect(rows.map(([index, nr]) => [Number(index), nr])).toEqual(
      Array.from({ length: 40 }, (_, at) => [at, String(at)]),
    );
  });

  test('the pipeline of calls asks a second question of each row, and streams a third one', async () => {
    const { reviewed, streamed, short } = await pipelinesOfCalls(model.path);
    expect(reviewed.map(({ review }) => review.split(' ')[0])).toEqual(['The', 'Warm', 'It', 'The']);
    for (const { label } of reviewed) expect(['good', 'bad', 'neither']).toContain(label);
    expect(streamed).toBe(short);
    expect(short).not.toBe('');
  });

  test("a cost model of one's own is searched as those are that are there", async () => {
    const plans = await costModel();
    expect(Object.keys(plans)).toEqual(['flexgen', 'flexgen-paper', 'link-only']);
    for (const { predicted } of Object.values(plans)) expect(predicted.fits).toBe(true);
    // Of bytes alone, all that fits lies on the GPU, and nothing but the link takes time.
    const { policy, predicted } = plans['link-only'] ?? {};
    expect(policy?.weights.disk).toBe(0);
    expect(predicted?.memoryBytes.gpu).toBeGreaterThan(12e9);
    expect(predicted?.bottleneck).toBe('host-to-device');
  });

  test('the ETL job writes a line for every ticket, the bad one with its error', async () => {
    const file = await etlJob(model.path);
    const lines = (await readFile(file, 'utf8'))
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { ticket: number; team?: string; error?: string });
    expect(lines.map(({ ticket }) => ticket).sort()).toEqual([4711, 4712, 4713, 4714]);
    expect(lines.filter(({ error }) => error !== undefined)).toEqual([
      { ticket: 4713, error: 'the ticket has no text' },
    ]);
    await rm(dirname(file), { recursive: true });
  });

  test('classifying tells two labels apart for each review', async () => {
    const { labels, best, embeddings } = await classified(model.path);
    expect(labels.map(({ index, error }) => [index, error])).toEqual([
      [0, undefined],
      [1, undefined],
      [2, undefined],
    ]);
    for (const { probabilities = {} } of labels)
      expect(Object.values(probabilities).reduce((sum, each) => sum + each, 0)).toBeCloseTo(1, 10);
    expect([' Paris.', ' a banana.', ' in the north.']).toContain(best);
    expect(embeddings.map(({ embedding }) => embedding?.length)).toEqual([64, 64, 64]);
  });

  test('the custom schedule changes the order of work and no answer', async () => {
    const { plain, custom } = await customSchedule(model.path);
    expect(plain).toHaveLength(6);
    expect(plain.every(({ error }) => error === undefined)).toBe(true);
    expect(custom).toEqual(plain);
    expect(print).toHaveBeenCalledWith(expect.stringContaining('shortest first, diagonal'));
  });

  test('layers on two engines change no answer, not by a bit', async () => {
    const { alone, together } = await layersOnTwoEngines(model.path);
    expect(alone).toHaveLength(6);
    expect(alone.every(({ error, logprobs }) => error === undefined && (logprobs?.length ?? 0) > 0)).toBe(true);
    expect(together).toEqual(alone);
    expect(print).toHaveBeenCalledWith('two engines gave the same answers as one');
  });

  test('tables keep their columns from one to the next, and a batch file has its output and its errors', async () => {
    const folder = await tables(model.path);
    const rows = await collect(
      readRows(`${folder}/summaries.parquet`, { carryFields: true, columns: { prompt: 'label' } }),
    );
    expect(
      rows.map(({ carry }) => [carry?.['nr'], carry?.['stars'], typeof carry?.['label'], typeof carry?.['summary']]),
    ).toEqual([
      ['1', '5', 'string', 'string'],
      ['2', '1', 'string', 'string'],
      ['3', '4', 'string', 'string'],
    ]);
    expect(rows[1]?.carry?.['What do you think?']).toBe('Broken after two days;\nnobody answers.');
    const ids = async (name: string): Promise<unknown[]> =>
      (await readFile(`${folder}/${name}`, 'utf8'))
        .trim()
        .split('\n')
        .map((line) => (JSON.parse(line) as { custom_id: string }).custom_id);
    expect([await ids('batch-output.jsonl'), await ids('batch-errors.jsonl')]).toEqual([['a', 'b'], ['c']]);
    await rm(folder, { recursive: true });
  });

  testGrammars('three questions have an answer each of every review', async () => {
    const results = await askQuestions(model.path);
    expect(results).toHaveLength(3);
    for (const { answers = {}, error } of results) {
      expect(error).toBeUndefined();
      expect(Object.keys(answers)).toEqual(['tone', 'stars', 'why']);
      expect(['positive', 'negative']).toContain(answers['tone']?.value);
      expect([1, 2, 3, 4, 5]).toContain(answers['stars']?.value);
    }
  });

  testGrammars(
    'the extraction finds a person of the right form in every note, and a table has columns of them',
    async () => {
      const { people, table } = await extractToObject(model.path);
      expect(people).toHaveLength(3);
      const rows = await collect(readRows(table, { carryFields: true, columns: { prompt: 'note' } }));
      expect(rows.map(({ carry }) => [carry?.['name'], carry?.['age'], carry?.['topic'], carry?.['text']])).toEqual(
        people.map(({ name, age, topic }) => [name, String(age), topic, '']),
      );
      await rm(dirname(table), { recursive: true });
      for (const { name, age, topic } of people)
        expect([
          [...name].length <= 24,
          Number.isInteger(age) && age <= 120,
          ['invoice', 'ticket', 'room'].includes(topic),
        ]).toEqual([true, true, true]);
    },
  );
});

describe.each([
  ['prompts.jsonl', 40],
  ['demo.jsonl', 10],
] as const)('%s', (name, least) => {
  test(`holds at least ${least} tasks, each with its own id and its own limit`, async () => {
    const lines = (await readFile(`examples/${name}`, 'utf8')).trim().split('\n');
    const rows = lines.map(
      (line) => JSON.parse(line) as { id: string; messages: { role: string; content: string }[]; maxNewTokens: number },
    );
    expect(rows.length).toBeGreaterThanOrEqual(least);
    expect(new Set(rows.map(({ id }) => id)).size).toBe(rows.length);
    for (const { id, messages, maxNewTokens } of rows) {
      expect(id).toMatch(/^[a-z]+(\/[a-z0-9-]+)?$/);
      expect(messages.at(-1)).toMatchObject({ role: 'user', content: expect.stringMatching(/\S{2}/) });
      expect(maxNewTokens).toBeGreaterThan(0);
      expect(maxNewTokens).toBeLessThanOrEqual(128);
    }
  });
});
