import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Engine, type RerankOptions, type RerankResult, type RowInput } from '../../src/index.js';
import { runJob } from '../../src/jobs/runJob.js';
import { encoderNamed } from '../support/model/fixtureEncoders.js';
import { model as fixture } from './support.js';

/** As Qwen3-Reranker's own code puts them together. */
const promptOf = (query: string, document: string, instruction: string): string =>
  '<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n' +
  `<Instruct>: ${instruction}\n<Query>: ${query}\n<Document>: ${document}` +
  '<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n';
const USUAL = 'Given a web search query, retrieve relevant passages that answer the query';
const CONTROL = ['<|im_start|>', '<|im_end|>', '<think>', '</think>'];

const ROWS = [
  { query: 'who wrote faust', documents: ['goethe did', 'it rained', 'faust was written in weimar', 'no'] },
  { query: 'what is the weather', documents: ['it rained', 'goethe did'] },
];

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'spillway-judged-'));
  await cp(fixture('qwen3'), folder, { recursive: true });
  const texts = [promptOf(ROWS.flatMap(({ query, documents }) => [query, ...documents]).join(' '), 'yes', USUAL)];
  const words = new Set(texts.join(' ').match(/\w+|[^\w\s]+/g));
  const tokens = ['[UNK]', ...CONTROL, ...words].slice(0, 250);
  await writeFile(
    join(folder, 'tokenizer.json'),
    JSON.stringify({
      added_tokens: CONTROL.map((content, i) => ({ id: i + 1, content, special: true, normalized: false })),
      normalizer: null,
      pre_tokenizer: { type: 'Whitespace' },
      post_processor: null,
      decoder: null,
      model: {
        type: 'WordLevel',
        vocab: Object.fromEntries(tokens.map((token, id) => [token, id])),
        unk_token: '[UNK]',
      },
    }),
  );
});
afterAll(() => rm(folder, { recursive: true, force: true }));

async function ranked(
  rows: readonly RowInput[],
  options: RerankOptions = {},
  more: object = {},
): Promise<RerankResult[]> {
  await using engine = await Engine.open({ model: folder, ...more });
  const results = [];
  for await (const result of engine.rerank(rows, options)) results.push(result);
  return results;
}

describe('a model that is asked', () => {
  test('scores are what it gives yes beside no, behind the prompt of its own code', async () => {
    await using engine = await Engine.open({ model: folder });
    for (const instruction of [undefined, 'the weather']) {
      const results = await ranked(ROWS, instruction === undefined ? {} : { instruction });
      const prompts = ROWS.flatMap(({ query, documents }) =>
        documents.map((document) => ({ prompt: promptOf(query, document, instruction ?? USUAL) })),
      );
      const expected: number[] = [];
      for await (const { scores, error } of engine.score(prompts, { completions: ['yes', 'no'] })) {
        if (error) throw new Error(error.message);
        const [yes = NaN, no = NaN] = (scores ?? []).map(({ logprob }) => logprob);
        expected.push(yes - no);
      }
      const found = results.flatMap(({ scores = [] }) => scores);
      expect(new Set(expected).size).toBeGreaterThan(4);
      found.forEach(({ logit, score }, at) => {
        expect(logit).toBeCloseTo(expected[at] ?? NaN, 4);
        expect(score).toBe(1 / (1 + Math.exp(-logit)));
      });
      expect(found).toHaveLength(expected.length);
    }
  });

  test('one by one, in any company, order and batch they are the same bits', async () => {
    const together = await ranked(ROWS);
    const alone = ROWS.flatMap(({ query, documents }) => documents.map((document) => ({ query, document })));
    const scores = together.flatMap((each) => each.scores);
    expect((await ranked(alone)).flatMap((each) => each.scores)).toEqual(scores);
    expect((await ranked([...alone].reverse())).flatMap((each) => each.scores).reverse()).toEqual(scores);
    expect((await ranked(alone, {}, { batchSize: 1 })).flatMap((each) => each.scores)).toEqual(scores);
  });

  test("documents of a query have its tokens from the first of them, and all rows have the prompt's beginning", async () => {
    const documents = Array.from({ length: 30 }, (_, i) =>
      ['goethe', 'it', 'rained', 'faust', 'did'].slice(i % 4).join(' '),
    );
    let shared = 0;
    const [result] = await ranked([{ query: 'who wrote faust', documents }], {
      onStats: ({ sharing }) => {
        shared = sharing.promptTokensSaved;
      },
    });
    const tokens = result?.usage.promptTokens ?? NaN;
    expect(tokens).toBeGreaterThan(30 * 60);
    // What is shared: pages as a whole: of some 70 a document, all up to its own text.
    expect(tokens - shared).toBeLessThan(tokens / 6);
  });

  test('what is too long is an error, or is cut', async () => {
    const row = { query: 'who wrote faust', document: 'faust '.repeat(100) };
    const [error] = await ranked([row]);
    expect(error?.error).toMatchObject({ code: 'too-long', message: expect.stringContaining('context holds 128') });
    const [cut] = await ranked([row], { truncate: 'tail' });
    expect(cut?.truncated).toBeGreaterThan(20);
    expect(cut?.usage.promptTokens).toBe(128);
    const kept = { ...row, document: 'faust '.repeat(100 - (cut?.truncated ?? 0)) };
    expect((await ranked([kept]))[0]?.scores).toEqual(cut?.scores);
  });

  test('as a job', async () => {
    await using engine = await Engine.open({ model: folder });
    const [input, output] = ['in.jsonl', 'out.jsonl'].map((name) => join(folder, name)) as [string, string];
    await writeFile(input, ROWS.map((row) => JSON.stringify(row)).join('\n'));
    const { done, failed } = await runJob({ engine, input, output, rerank: {} });
    expect({ done, failed }).toEqual({ done: 2, failed: 0 });
    await expect(runJob({ engine, input, output, resume: true, rerank: { instruction: 'other' } })).rejects.toThrow(
      'instruction',
    );
  });

  test('others are refused', async () => {
    await using other = await Engine.open({ model: fixture('llama') });
    expect(() => other.rerank(ROWS)).toThrow('or Qwen3-Reranker');
    await using encoder = await Engine.open({ model: encoderNamed('bert-pairs').path });
    expect(() => encoder.rerank(ROWS, { instruction: 'x' })).toThrow('instruction: found one for a cross-encoder');
  });
});
