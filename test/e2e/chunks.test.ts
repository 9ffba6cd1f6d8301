import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { from, lastValueFrom, toArray } from 'rxjs';
import { dryRun, encodeResults, readRows, runJob, type JobOptions } from '../../src/api/jobs.js';
import {
  embed,
  Engine,
  offloadGenerate,
  ReuseFile,
  type Row,
  type RowResult,
  type RunOptions,
} from '../../src/index.js';
import { testGrammars } from '../support/grammars.js';
import { tinyChatModel } from '../support/tinyChatModel.js';
import { at, collect } from './support.js';

/** One token a byte, and a context of 2048. */
const textOf = (bytes: number, mark = 0): string =>
  Array.from({ length: Math.ceil(bytes / 8) }, (_, nth) => `w${(nth * 37 + mark) % 9973} `.padEnd(8, '.'))
    .join('')
    .slice(0, bytes);
async function all<T>(source: AsyncIterable<T>): Promise<T[]> {
  const values: T[] = [];
  for await (const value of source) values.push(value);
  return values;
}

const OPTIONS: RunOptions = { chunkTokens: 300, maxNewTokens: 24, ignoreEos: true };

describe('documents in parts', () => {
  let model: Awaited<ReturnType<typeof tinyChatModel>>;
  let engine: Engine;
  let folder: string;
  beforeAll(async () => {
    model = await tinyChatModel();
    engine = await Engine.open({ model: model.path, batchSize: 8, learn: false });
    folder = await mkdtemp(join(tmpdir(), 'spillway-chunks-'));
  });
  afterAll(async () => {
    await engine.close();
    await model[Symbol.asyncDispose]();
    await rm(folder, { recursive: true, force: true });
  });
  const answers = (rows: readonly Row[], options: RunOptions): Promise<RowResult[]> =>
    collect(engine.generate(rows, options));
  const one = async (row: Row, options: RunOptions): Promise<RowResult> => at(await answers([row], options), 0);

  test('each part has the answer of its text asked alone, with all that stands round it', async () => {
    const body = textOf(1000);
    const told = {
      ...OPTIONS,
      chunkOverlap: 50,
      promptTemplate: 'Say of {{title}}:\n{{body}}\nEnd.',
      system: 'Be brief.',
    };
    const result = await one({ id: 'd', fields: { title: 'this', body } }, told);
    const { chunkTokens: _tokens, chunkOverlap: _overlap, ...alone } = told;
    const places = [0, 250, 500, 750].map((start) => ({ start, end: Math.min(1000, start + 300) }));
    expect(result.chunks?.map(({ start, end }) => ({ start, end }))).toEqual(places);
    const asked = await answers(
      places.map(({ start, end }) => ({ fields: { title: 'this', body: body.slice(start, end) } })),
      alone,
    );
    expect(result.chunks?.map(({ text, tokens, usage }) => [text, tokens, usage])).toEqual(
      asked.map(({ text, tokens, usage }) => [text, tokens, usage]),
    );
    expect(result).toMatchObject({ id: 'd', index: 0, text: '', finishReason: 'length' });
    expect(result.usage.promptTokens).toBe(asked.reduce((sum, { usage }) => sum + usage.promptTokens, 0));
  });

  test('answers are merged by the model, and the row says of how many parts', async () => {
    const prompt = textOf(900);
    const merged = await one({ prompt }, { ...OPTIONS, merge: 'Make one of {{answers}} now.' });
    const parts = await answers(
      [0, 300, 600].map((start) => ({ prompt: prompt.slice(start, start + 300) })),
      { maxNewTokens: 24, ignoreEos: true },
    );
    const whole = await one(
      { prompt: `Make one of ${parts.map(({ text }) => text).join('\n\n')} now.` },
      { maxNewTokens: 24, ignoreEos: true },
    );
    expect([merged.text, merged.tokens, merged.parts]).toEqual([whole.text, whole.tokens, { count: 3, levels: 1 }]);
    expect(merged.usage.completionTokens).toBe(4 * 24);
    const short = await one({ prompt: 'short' }, { ...OPTIONS, merge: 'Make one.' });
    expect(short).toEqual({
      ...(await one({ prompt: 'short' }, { maxNewTokens: 24, ignoreEos: true })),
      parts: { count: 1, levels: 0 },
    });
  });

  test('as a tree where they are too many for the context; no row depends on its company', async () => {
    const options = { ...OPTIONS, chunkTokens: 200, maxNewTokens: 200, merge: 'Make one of these:', chat: true };
    const rows = [0, 1, 2].map((nth): Row => ({ id: nth, prompt: textOf(nth === 1 ? 150 : 4400 + nth, nth) }));
    const results = await answers(rows, options);
    expect(results.map(({ id, parts, error }) => [id, parts?.count, error])).toEqual([
      [0, 22, undefined],
      [1, 1, undefined],
      [2, 23, undefined],
    ]);
    expect(results[0]?.parts?.levels).toBeGreaterThan(1);
    for (const [nth, row] of rows.entries()) {
      const [alone] = await answers([row], options);
      expect({ ...alone, index: nth }).toEqual(results[nth]);
    }
    const messages = await one(
      {
        messages: [
          { role: 'system', content: 'Brief.' },
          { role: 'user', content: textOf(4400) },
        ],
      },
      options,
    );
    const system = await one({ prompt: textOf(4400) }, { ...options, system: 'Brief.' });
    expect([messages.text, messages.parts]).toEqual([system.text, system.parts]);
  });

  test('a part that fails fails its row, and is named; others are not concerned', async () => {
    const options = { ...OPTIONS, merge: 'Make one.', promptTemplate: '{{head}}{{body}}' };
    const results = await answers(
      [
        { fields: { head: 'x'.repeat(2100), body: textOf(5000) } },
        { fields: { body: textOf(500) } },
        { fields: { head: '', body: textOf(500) } },
      ],
      options,
    );
    expect(results.map(({ error }) => error?.code)).toEqual(['too-long', 'missing-field', undefined]);
    expect(results[0]?.error?.message).toMatch(/^part 1 of 17 \(characters 0 to 300\): the prompt has \d+ tokens/);
    const [wide] = await answers([{ prompt: textOf(900) }], { ...OPTIONS, merge: `${'m'.repeat(2020)}:` });
    expect(wide?.error).toMatchObject({
      code: 'too-long',
      message: expect.stringContaining('merging answers') as unknown,
    });
    const others = await answers(
      [{ tokens: [5, 6, 7] }, { prompt: 'a', samples: 2 }, { prompt: 5 as unknown as string }, { prompt: 'fine' }],
      OPTIONS,
    );
    expect(others.map(({ error }) => error?.code)).toEqual([
      'invalid-row',
      'invalid-parameter',
      'invalid-row',
      undefined,
    ]);
  });

  test.each<[RunOptions, string]>([
    [{ chunkOverlap: 2 }, 'chunkOverlap: found it without `chunkTokens`'],
    [{ merge: 'x' }, 'merge: found it without `chunkTokens`'],
    [{ chunkTokens: 0 }, 'chunkTokens: found 0'],
    [{ chunkTokens: 4, chunkOverlap: 4 }, 'chunkOverlap: found 4'],
    [{ chunkTokens: 4, merge: ' ' }, 'merge: found an empty text'],
    [{ chunkTokens: 4, merge: '{{answers' }, 'merge: found braces'],
    [{ chunkTokens: 4, samples: 2 }, 'samples: found it beside chunkTokens'],
    [{ chunkTokens: 4, truncate: 'head' }, 'truncate: found it beside chunkTokens'],
    [{ chunkTokens: 4, questions: [{ name: 'a', text: 'b' }] }, 'questions: found it beside chunkTokens'],
  ])('what has no meaning is refused: %j', (options, words) => {
    expect(() => engine.generate([], options)).toThrow(words);
  });

  test('jobs have a row for each part, go on with whole documents, and keep answers for other runs', async () => {
    const input = join(folder, 'in.jsonl');
    const rows = Array.from({ length: 7 }, (_, nth) => ({ id: `d${nth}`, prompt: textOf(100 + 200 * nth, nth) }));
    await writeFile(input, `${rows.map((row) => JSON.stringify(row)).join('\n')}\n{"prompt":1}\n`);
    const job = async (to: string, options: Partial<JobOptions> = {}): Promise<string> => {
      const output = join(folder, to);
      await runJob({ engine, input, output, generate: OPTIONS, ...options });
      return readFile(output, 'utf8');
    };
    const lines = (text: string): RowResult[] =>
      text
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line) as RowResult);
    const whole = await job('whole.jsonl');
    const counts = rows.map(({ prompt }) => Math.ceil(prompt.length / 300));
    expect(lines(whole).map((row) => [row.index, (row as { chunk?: number }).chunk])).toEqual([
      ...counts.flatMap((count, index) => Array.from({ length: count }, (_, chunk) => [index, chunk])),
      [7, undefined],
    ]);
    expect(Object.keys(lines(whole)[1] ?? {})).toEqual([
      ...['id', 'index', 'chunk', 'start', 'end', 'text', 'tokens', 'finishReason', 'usage'],
    ]);
    await job('part.jsonl', { limit: 3 });
    expect(await job('part.jsonl', { resume: true })).toBe(whole);
    await expect(job('part.jsonl', { resume: true, generate: { ...OPTIONS, chunkTokens: 200 } })).rejects.toThrow(
      'chunkTokens (was 300, is 200)',
    );
    const table = await job('whole.csv');
    expect(table.split('\n')[0]).toBe(
      'id,text,chunk,chunk_start,chunk_end,finish_reason,error_code,error_message,prompt_tokens,completion_tokens',
    );
    const file = join(folder, 'merged.parquet');
    await runJob({ engine, input, output: file, generate: { ...OPTIONS, merge: 'Make one.' } });
    const merged = (await all(readRows(file, { carryFields: true, templated: true }))).map(
      (row) => (row as { fields?: Record<string, unknown> }).fields,
    );
    expect(merged.map((row) => [row?.['parts'], row?.['merge_levels']])).toEqual([
      ...counts.map((count) => [count, count > 1 ? 1 : 0]),
      [null, null],
    ]);
    await using reuse = await ReuseFile.open(join(folder, 'kept.reuse'));
    const options = { ...OPTIONS, merge: 'Make one.', reuse };
    const first = await answers(rows, options);
    const again = engine.generate(rows, options);
    expect(await collect(again)).toEqual(first);
    expect((await again.stats).tokens.generated).toBe(0);
    const encoded: Uint8Array[] = [];
    for await (const piece of encodeResults(await answers(rows, OPTIONS), { format: 'csv', chunks: true }))
      encoded.push(piece);
    expect(Buffer.concat(encoded).toString().split('\n').length).toBe(lines(whole).length + 1);
  });

  test('a dry run calls the same rows bad, and counts parts and merges', async () => {
    const input = join(folder, 'dry.jsonl');
    await writeFile(
      input,
      [textOf(900), textOf(100), 5, textOf(650)].map((prompt) => `${JSON.stringify({ prompt })}\n`).join(''),
    );
    const generate = { ...OPTIONS, merge: 'Make one.' };
    const report = await dryRun({ input, generate, engine: { model: model.path, learn: false } });
    expect(report).toMatchObject({ rows: 4, answers: 3 + 1 + 1 + 3 + 1, failed: { 'invalid-row': 1 } });
    const output = join(folder, 'dry-run.jsonl');
    await runJob({ engine, input, output, generate });
    const failed = (await readFile(output, 'utf8'))
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as RowResult);
    expect(report.bad.map(({ index, code }) => [index, code])).toEqual(
      failed.filter(({ error }) => error).map(({ index, error }) => [index, error?.code]),
    );
  });

  test('operators take the same options; embeddings have a row for each part', async () => {
    const rows: Row[] = [0, 1, 2].map((nth) => ({ id: nth, prompt: textOf(200 + 300 * nth, nth) }));
    const merge = { ...OPTIONS, merge: 'Make one.' };
    const streamed = await lastValueFrom(from(rows).pipe(offloadGenerate(engine, merge), toArray()));
    expect(streamed).toEqual(await answers(rows, merge));
    const chunked = { chunkTokens: 128, chunkOverlap: 16 };
    const results = await lastValueFrom(from(rows).pipe(embed(engine, chunked), toArray()));
    for (const [nth, { chunks = [], usage }] of results.entries()) {
      const { prompt = '' } = at(rows, nth);
      expect(chunks.at(-1)?.end).toBe(prompt.length);
      const alone = await all(engine.embed(chunks.map(({ start, end }) => ({ prompt: prompt.slice(start, end) }))));
      expect(chunks.map(({ embedding }) => embedding)).toEqual(alone.map(({ embedding }) => embedding));
      expect(usage.promptTokens).toBe(alone.reduce((sum, each) => sum + each.usage.promptTokens, 0));
    }
    const input = join(folder, 'embed.jsonl');
    await writeFile(input, rows.map((row) => `${JSON.stringify(row)}\n`).join(''));
    const output = join(folder, 'vectors.parquet');
    await runJob({ engine, input, output, embed: chunked, limit: 2 });
    await runJob({ engine, input, output, embed: chunked, resume: true });
    const stored = (await all(readRows(output, { carryFields: true, templated: true }))).map(
      (row) => (row as { fields?: Record<string, unknown> }).fields,
    );
    expect(stored.map((row) => [row?.['id'], row?.['chunk'], row?.['chunk_start'], row?.['chunk_end']])).toEqual(
      results.flatMap(({ id, chunks = [] }) => chunks.map(({ start, end }, chunk) => [String(id), chunk, start, end])),
    );
    const bad = at(await all(engine.embed([{ prompt: textOf(5000) }], { chunkTokens: 2500 })), 0);
    expect(bad.error?.message).toMatch(/^part 1 of 2 \(characters 0 to 2500\): the prompt has 2500 tokens/);
  });

  testGrammars('formats hold for parts and merges alike', async () => {
    const rows = [{ prompt: textOf(900) }];
    const choices = ['rain', 'sun', 'wind'];
    const chosen = at(
      await answers(rows, { chunkTokens: 300, merge: 'Most often?', responseFormat: { type: 'choices', choices } }),
      0,
    );
    expect(choices).toContain(chosen.value);
    expect(chosen.parts).toEqual({ count: 3, levels: 1 });
    const schema = { type: 'integer', minimum: 0, maximum: 99 };
    const responseFormat = { type: 'json_schema', schema } as const;
    const parts = at(await answers(rows, { chunkTokens: 300, responseFormat, maxNewTokens: 40 }), 0);
    for (const { text, value } of parts.chunks ?? []) expect(value).toEqual(JSON.parse(text));
    const merged = at(
      await answers(rows, { chunkTokens: 300, merge: 'One:', responseFormat, maxNewTokens: 40, confidence: true }),
      0,
    );
    expect([merged.value, merged.parts?.levels]).toEqual([Number(merged.text), 1]);
    expect(merged.confidence).toBeGreaterThan(0);
  });
});

test('an encoder embeds parts, with the text that goes before each prompt', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'spillway-encoder-'));
  await cp('test/fixtures/encoders/bert', folder, { recursive: true });
  await cp('test/fixtures/encoders/bert-pairs/tokenizer.json', join(folder, 'tokenizer.json'));
  await using engine = await Engine.open({ model: folder, learn: false });
  await rm(folder, { recursive: true });
  const text = 'the hat of a cat, and more of it. '.repeat(20);
  const [result] = await all(
    engine.embed([{ fields: { a: text, b: 'title' } }], {
      promptTemplate: '{{b}}: {{a}}',
      chunkTokens: 20,
      chunkOverlap: 5,
    }),
  );
  expect(result?.chunks?.length).toBeGreaterThan(5);
  const alone = await all(
    engine.embed((result?.chunks ?? []).map(({ start, end }) => ({ prompt: `title: ${text.slice(start, end)}` }))),
  );
  expect(result?.chunks?.map(({ embedding }) => embedding)).toEqual(alone.map(({ embedding }) => embedding));
});
