import { readFileSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { from, lastValueFrom, toArray } from 'rxjs';
import {
  classify,
  embed,
  Engine,
  score,
  UsageError,
  type AnswerRunOptions,
  type ClassifyOptions,
  type ClassifyResult,
  type EmbedOptions,
  type EmbedResult,
  type EngineOptions,
  type GenerateOptions,
  type Row,
  type RowInput,
  type RowResult,
  type RunStats,
  type ScoreResult,
} from '../../src/index.js';
import { runJob } from '../../src/jobs/runJob.js';
import { schedules } from '../support/arbitraryRuns.js';
import { promptTrees } from '../support/promptTrees.js';
import { tinyChatModel } from '../support/tinyChatModel.js';
import { tries } from '../support/tries.js';
import { blocks, model } from './support.js';

async function all<T>(results: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = [];
  for await (const result of results) list.push(result);
  return list;
}

interface Golden {
  readonly tokens: readonly number[];
  readonly completions: readonly (readonly number[])[];
  readonly logprobs: readonly (readonly number[])[];
  readonly embeddings: Readonly<Record<'last' | 'mean' | 'cls', readonly number[]>>;
}
const golden = JSON.parse(readFileSync('test/fixtures/answers.json', 'utf8')) as Readonly<
  Record<string, readonly Golden[]>
>;

describe.each(Object.entries(golden))('%s as transformers', (name, cases) => {
  let engine: Engine;
  beforeAll(async () => {
    engine = await Engine.open({ model: model(name), precision: 'float32', batchSize: 3, tokensPerSquare: 24 });
  });
  afterAll(() => engine.close());

  test('scores each completion as if it stood alone behind the prompt', async () => {
    const rows = cases.map(({ tokens, completions }) => ({ tokens, completions }));
    const results = await all(engine.score(rows, { tokenLogprobs: true }));
    results.forEach(({ scores = [] }, row) => {
      const expected = cases[row]?.logprobs ?? [];
      expect(scores).toHaveLength(expected.length);
      scores.forEach(({ logprob, tokens, tokenLogprobs = [] }, at) => {
        const each = expected[at] ?? [];
        expect(tokens).toBe(each.length);
        expect(Math.abs(logprob - each.reduce((sum, value) => sum + value, 0))).toBeLessThan(1e-4);
        tokenLogprobs.forEach((token, nth) => {
          expect(Math.abs(token.logprob - (each[nth] ?? NaN))).toBeLessThan(1e-4);
        });
      });
    });
  });

  test.each(['last', 'mean', 'cls'] as const)('pools hidden states: %s', async (pooling) => {
    const results = await all(
      engine.embed(
        cases.map(({ tokens }) => ({ tokens })),
        { pooling },
      ),
    );
    results.forEach(({ embedding }, row) => {
      const expected = cases[row]?.embeddings[pooling] ?? [];
      expect(embedding).toHaveLength(expected.length);
      (embedding as readonly number[]).forEach((value, at) => {
        expect(Math.abs(value - (expected[at] ?? NaN))).toBeLessThan(1e-4);
      });
    });
  });
});

const MODELS: readonly (readonly [string, Partial<EngineOptions>])[] = [
  ['llama-Q4_1.gguf', {}],
  ['gemma3-mixed.gguf', { compressCache: '8bit' }],
  ['mixtral', {}],
  ['llama-Q4_1.gguf', { compressCache: '4bit', sparseAttention: 0.3 }],
  ['llama-Q4_1.gguf', { cache: { cpu: 0.3, disk: 0.7 }, weights: { cpu: 0, disk: 1 } }],
];
/** Completions of a few tokens that begin alike more often than not. */
const completions = fc.array(fc.array(fc.nat(3), { minLength: 1, maxLength: 5 }), { minLength: 1, maxLength: 6 });

describe.each(MODELS)('%s, %j', (name, more) => {
  test('the same bits in company and alone, with sharing on and off, whatever the rows, the completions, the schedule and the chunks', async () => {
    await fc.assert(
      fc.asyncProperty(
        promptTrees(8),
        fc.array(completions, { minLength: 8, maxLength: 8 }),
        schedules,
        blocks,
        async (trees, lists, schedule, { batchSize, batches, tokensPerSquare }) => {
          await using engine = await Engine.open({ model: model(name), batchSize, batches, tokensPerSquare, ...more });
          const rows = trees.map(({ tokens }, id): Row => ({ id, tokens: tokens ?? [], completions: lists[id] ?? [] }));
          const together = await all(engine.score(rows, { tokenLogprobs: true, schedule }));
          expect(await all(engine.score(rows, { tokenLogprobs: true, schedule, sharePrefixes: false }))).toEqual(
            together,
          );
          const [first] = rows;
          const own = together[0]?.scores ?? [];
          for (const [at, completion] of (first?.completions ?? []).entries()) {
            const [alone] = await all(
              engine.score([{ tokens: first?.tokens ?? [], completions: [completion] }], { tokenLogprobs: true }),
            );
            expect(alone?.scores).toEqual([own[at]]);
          }
          // And as a text whose own tokens are scored, one after another.
          const [last = []] = (first?.completions ?? []) as number[][];
          const text = [...(first?.tokens ?? []), ...last];
          const { negativeLogLikelihood } = await engine.perplexity(text, {
            window: text.length,
            promptTokens: text.length - last.length,
          });
          expect(own[0]?.logprob).toBeCloseTo(-negativeLogLikelihood, 10);
          for (const pooling of ['last', 'mean'] as const) {
            const embedded = await all(engine.embed(rows, { pooling, schedule }));
            expect(await all(engine.embed(rows, { pooling, sharePrefixes: false }))).toEqual(embedded);
            expect((await all(engine.embed(rows.slice(-1), { pooling })))[0]?.embedding).toEqual(
              embedded.at(-1)?.embedding,
            );
          }
        },
      ),
      { numRuns: tries(1, 3), endOnFailure: true },
    );
  });
});

describe('labels', () => {
  test('a label that has a name is scored by its text, and called by its name', async () => {
    const named = [{ name: 'spam', text: ' yes' }, { name: 'ham', text: ' no' }, 'unsure'];
    const [ofRun, ofRow, plain] = await all(
      engine.classify(
        [
          { prompt: 'Well? ' },
          { prompt: 'Well? ', labels: named },
          { prompt: 'Well? ', labels: [' yes', ' no', 'unsure'] },
        ],
        { labels: named },
      ),
    );
    const texts = plain?.probabilities ?? {};
    const expected = { spam: texts[' yes'], ham: texts[' no'], unsure: texts['unsure'] };
    expect(ofRun).toMatchObject({ probabilities: expected });
    expect(ofRow).toMatchObject({ probabilities: expected, label: ofRun?.label });
    expect(Object.keys(expected)).toContain(ofRun?.label);
  });

  test.each([
    [
      [
        { name: 'a', text: 'x' },
        { name: 'a', text: 'y' },
      ],
      'labels[1]: found the name "a" a second time',
    ],
    [[{ name: 'x', text: 'a' }, 'x'], 'labels[1]: found the name "x" a second time'],
    [
      [
        { name: 'a', text: 'x' },
        { name: 'b', text: 'x' },
      ],
      'labels[1]: found "x" a second time',
    ],
    [[{ name: '', text: 'x' }], 'labels[0].name: found ""'],
    [[{ text: 'x' }], 'labels[0].name: found undefined'],
    [[{ name: 'a' }], 'labels[0]: found undefined, expected a text'],
  ])('%j is refused', async (labels, message) => {
    const [row] = await all(engine.classify([{ prompt: 'x', labels } as RowInput]));
    expect(row?.error?.message).toContain(message);
    expect(() => engine.classify([{ prompt: 'x' }], { labels } as ClassifyOptions)).toThrow(message);
  });

  let engine: Engine;
  let path: AsyncDisposable & { readonly path: string };
  beforeAll(async () => {
    path = await tinyChatModel();
    engine = await Engine.open({ model: path.path, precision: 'float32', batchSize: 4, tokensPerSquare: 64 });
  });
  afterAll(async () => {
    await engine.close();
    await path[Symbol.asyncDispose]();
  });
  const run = (rows: readonly RowInput[], options: AnswerRunOptions<ClassifyOptions> = {}): Promise<ClassifyResult[]> =>
    all(engine.classify(rows, options));

  test('their probabilities are those of their log-likelihoods, normalised; of the run, or of the row', async () => {
    const labels = ['yes', 'no', 'yes, but', 'n'];
    const [own, ofRun] = await run(
      [
        { id: 'a', prompt: 'Well? ', labels: ['up', 'down'] },
        { id: 'b', prompt: 'Well? ' },
      ],
      { labels },
    );
    const [scored] = await all(engine.score([{ prompt: 'Well? ', completions: labels }]));
    const weights = scored?.scores?.map(({ logprob }) => Math.exp(logprob)) ?? [];
    const total = weights.reduce((sum, weight) => sum + weight, 0);
    expect(Object.keys(ofRun?.probabilities ?? {})).toEqual(labels);
    labels.forEach((label, at) => {
      expect(ofRun?.probabilities?.[label]).toBeCloseTo((weights[at] ?? NaN) / total, 10);
    });
    const best = labels[weights.indexOf(Math.max(...weights))];
    expect(ofRun).toMatchObject({
      id: 'b',
      index: 1,
      label: best,
      probability: ofRun?.probabilities?.[best ?? ''],
      usage: { promptTokens: 6, completionTokens: 3 + 2 + 8 + 1 },
    });
    expect(Object.keys(own?.probabilities ?? {})).toEqual(['up', 'down']);
    expect(Object.keys(own ?? {})).toEqual(['id', 'index', 'label', 'probability', 'probabilities', 'usage']);
  });

  test('with the end token a label is no beginning of another', async () => {
    const labels = ['a', 'ab'];
    const [open] = await run([{ prompt: 'Say: ' }], { labels });
    const [ended] = await run([{ prompt: 'Say: ' }], { labels, labelEnd: true });
    const end = [...engine.tokenizer.endTokens][0] ?? -1;
    const [scored] = await all(
      engine.score([{ prompt: 'Say: ', completions: labels.map((label) => [...engine.tokenizer.encode(label), end]) }]),
    );
    const [a = NaN, ab = NaN] = scored?.scores?.map(({ logprob }) => Math.exp(logprob)) ?? [];
    expect(ended?.probabilities?.['a']).toBeCloseTo(a / (a + ab), 10);
    expect(open?.probabilities?.['a']).not.toBeCloseTo(a / (a + ab), 3);
  });

  test('a prior divides their probabilities: numbers, or what they are behind a prompt that says nothing', async () => {
    const labels = ['good', 'bad'];
    const rows = [{ fields: { text: 'fine' } }];
    const options = { labels, promptTemplate: 'Review: {{text}} So: ' };
    const [plain] = await run(rows, options);
    const [neutral] = await run([{ fields: { text: 'N/A' } }], options);
    const of = (result: ClassifyResult | undefined): number =>
      (result?.probabilities?.['good'] ?? NaN) / (result?.probabilities?.['bad'] ?? NaN);
    const [numbers] = await run(rows, { ...options, labelPrior: [0.2, 0.8] });
    expect(of(numbers)).toBeCloseTo(of(plain) / 0.25, 8);
    const [text] = await run(rows, { ...options, labelPrior: 'N/A' });
    expect(of(text) * of(neutral)).toBeCloseTo(of(plain), 8);
    expect(
      await run([{ fields: { text: 'x' }, labels: ['one', 'two'] }], { ...options, labelPrior: [0.2, 0.8] }),
    ).toMatchObject([{ error: { code: 'invalid-parameter', message: expect.stringContaining('labelPrior') } }]);
  });

  test('a prior of a text is found out in the way that a row has: raw, or in a conversation', async () => {
    const labels = [' yes', 'no'];
    const ways: readonly (readonly [RowInput, AnswerRunOptions<ClassifyOptions>])[] = [
      [{ prompt: 'N/A', chat: false }, {}],
      [{ prompt: 'N/A', chat: 'auto' }, {}],
      [{ messages: [{ role: 'user', content: 'N/A' }] }, {}],
      [{ tokens: engine.tokenizer.encode('N/A') }, { system: 'Short.' }],
      [{ prompt: 'N/A' }, { system: 'Short.' }],
      [{ fields: { text: 'N/A' }, chat: 'auto' }, { promptTemplate: 'So: {{text}}' }],
    ];
    for (const [row, options] of ways) {
      const [neutral] = await run([row], { ...options, labels, labelPrior: 'N/A' });
      for (const label of labels) expect(neutral?.probabilities?.[label]).toBeCloseTo(0.5, 8);
    }
    // In the midst of a run, too.
    const rows = ways.slice(0, 3).flatMap(([row]) => Array.from({ length: 12 }, () => row));
    const mixed = [...rows.keys()].map((at) => rows[(at * 5) % rows.length] ?? {}) as RowInput[];
    for (const sharePrefixes of [true, false])
      for (const { probability } of await run(mixed, { labels, labelPrior: 'N/A', sharePrefixes }))
        expect(probability).toBeCloseTo(0.5, 8);
    // Nor does it wait for memory or places that the run's own rows never give back.
    await using narrow = await Engine.open({ model: path.path, batchSize: 1, batches: 1, rowTokens: 40 });
    const results = await all(narrow.classify(mixed, { labels, labelPrior: 'N/A' }));
    expect(results.map(({ probability = NaN }) => probability.toFixed(6))).toEqual(mixed.map(() => '0.500000'));
    // A row that cannot be done in its way is its own affair, and finds out nothing.
    const [bad, good] = await run([{ messages: [] }, { prompt: 'x' }] as RowInput[], { labels, labelPrior: 'N/A' });
    expect([bad?.error?.code, good?.error]).toEqual([expect.any(String), undefined]);
  });

  test('a row of one pass: what is computed is its own tokens, and of each label all but the first and the last', async () => {
    const common = 'x'.repeat(200);
    const rows = Array.from({ length: 8 }, (_, id) => ({ id, prompt: `${common}${String(id).repeat(20)}` }));
    let stats: RunStats | undefined;
    const computed = async (labels: readonly string[]): Promise<number> => {
      let tokens = 0;
      await run(rows, {
        labels,
        onTrace: ({ name, args }) => {
          if (name === 'compute L0 attend')
            tokens += (args['rows'] as number[][]).reduce((sum, [, , count = 0]) => sum + count, 0);
        },
        onStats: (final) => {
          stats = final;
        },
      });
      return tokens;
    };
    // One row computes what they have in common by itself; a page is copied where it ends.
    const single = await computed(['a', 'b', 'c', 'd']);
    expect(single).toBeLessThan(2 * 220);
    expect(stats?.tokens).toEqual({ prompt: 8 * 220, generated: 0 });
    expect(await computed(['abc', 'abd', 'xyz', 'ab'])).toBeLessThanOrEqual(single + 8 * (2 + 2 + 2));
  });

  test.each<[string, RowInput, AnswerRunOptions<ClassifyOptions>, string, RegExp]>([
    ['no labels', { prompt: 'x' }, {}, 'invalid-parameter', /^labels: found none, expected an array of texts/],
    ['an empty list', { prompt: 'x', labels: [] }, {}, 'invalid-parameter', /found 0 texts, expected 1 to 1024/],
    [
      'equal labels',
      { prompt: 'x', labels: ['a', 'b', 'a'] },
      {},
      'invalid-parameter',
      /^labels\[2\]: found "a" a second time/,
    ],
    ['an empty label', { prompt: 'x', labels: ['a', ''] }, {}, 'invalid-parameter', /^labels\[1\]: found ""/],
    [
      'labels that are no strings',
      { prompt: 'x', labels: ['a', 7] as unknown as string[] },
      {},
      'invalid-parameter',
      /^labels\[1\]: found 7/,
    ],
    [
      'a label that is no list',
      { prompt: 'x', labels: 'yes' as unknown as string[] },
      {},
      'invalid-parameter',
      /^labels: found "yes", expected an array/,
    ],
    [
      '10,000 labels',
      { prompt: 'x', labels: Array.from({ length: 10_000 }, (_, i) => `l${i}`) },
      {},
      'invalid-parameter',
      /found 10000 texts, expected 1 to 1024/,
    ],
    [
      'a label longer than the context',
      { prompt: 'x', labels: ['y'.repeat(2100)] },
      {},
      'too-long',
      /^labels\[0\]: found 2100 tokens, the model's context holds 2048/,
    ],
    [
      'a label that does not fit behind the prompt',
      { prompt: 'x'.repeat(2000), labels: ['y'.repeat(60)] },
      {},
      'too-long',
      /the prompt has 2000 tokens, and what is to stand after it 60/,
    ],
    ['no prompt', { labels: ['a'] } as unknown as RowInput, {}, 'no-prompt', /none of them/],
  ])("%s: one error, and no other row's affair", async (_what, row, options, code, words) => {
    const results = await run(
      [
        { id: 'good', prompt: 'x', labels: ['a', 'b'] },
        { id: 'bad', ...row },
        { id: 'also', prompt: 'y', labels: ['a', 'b'] },
      ],
      options,
    );
    expect(results.map(({ id, error }) => [id, error?.code])).toEqual([
      ['good', undefined],
      ['bad', code],
      ['also', undefined],
    ]);
    expect(results[1]?.error?.message).toMatch(words);
    expect(results[1]).not.toHaveProperty('label');
  });

  test.each<[AnswerRunOptions<ClassifyOptions>, RegExp]>([
    [{ labels: [] }, /^labels: found 0 texts/],
    [{ labels: ['a', 'a'] }, /^labels\[1\]: found "a" a second time/],
    [{ labels: 'a,b' as unknown as string[] }, /^labels: found "a,b", expected an array of texts/],
    [{ labels: Array.from({ length: 10_000 }, (_, i) => `l${i}`) }, /10000 texts, expected 1 to 1024/],
    [{ labels: ['a'], labelPrior: [0.5, 0.5] }, /^labelPrior: found 2 numbers, expected 1/],
    [{ labels: ['a', 'b'], labelPrior: [0.5, 0] }, /^labelPrior\[1\]: found 0, expected a number above 0/],
    [{ labelPrior: 'N/A' }, /^labelPrior: found one without labels/],
    [{ maxNewTokens: 3 } as unknown as AnswerRunOptions<ClassifyOptions>, /maxNewTokens/],
  ])('what a run is told is refused before anything is read: %#', (options, words) => {
    expect(() => engine.classify([], options)).toThrow(UsageError);
    expect(() => engine.classify([], options)).toThrow(words);
  });

  test('as operators', async () => {
    const rows$ = from([{ prompt: 'Well? ' }, { prompt: 'So? ' }]);
    const labels = ['yes', 'no'];
    expect(await lastValueFrom(rows$.pipe(classify(engine, { labels }), toArray()))).toEqual(
      await run([{ prompt: 'Well? ' }, { prompt: 'So? ' }], { labels }),
    );
    const scored: ScoreResult[] = await lastValueFrom(rows$.pipe(score(engine, { completions: labels }), toArray()));
    expect(scored.map(({ scores }) => scores?.length)).toEqual([2, 2]);
    const embedded: EmbedResult[] = await lastValueFrom(rows$.pipe(embed(engine), toArray()));
    expect(embedded.map(({ embedding }) => embedding?.length)).toEqual([64, 64]);
    expect(() => classify({} as unknown as Engine)).toThrow(UsageError);
  });

  test('embeddings: dimensions are cut before the length becomes 1; base64 is float32', async () => {
    const made = async (options: AnswerRunOptions<EmbedOptions>): Promise<EmbedResult | undefined> =>
      (await all(engine.embed([{ prompt: 'Well? ' }], options)))[0];
    const [whole, cut, bytes, raw] = [
      await made({}),
      await made({ dimensions: 8 }),
      await made({ dimensions: 8, encoding: 'base64' }),
      await made({ normalize: false }),
    ];
    const numbers = (result: EmbedResult | undefined): readonly number[] => result?.embedding as readonly number[];
    const length = (vector: readonly number[]): number => Math.hypot(...vector);
    expect(length(numbers(whole))).toBeCloseTo(1, 6);
    expect(length(numbers(cut))).toBeCloseTo(1, 6);
    const part = length(numbers(whole).slice(0, 8));
    numbers(cut).forEach((value, at) => {
      expect(value).toBeCloseTo((numbers(whole)[at] ?? NaN) / part, 6);
    });
    const decoded = Buffer.from(bytes?.embedding as string, 'base64');
    expect(decoded).toHaveLength(32);
    numbers(cut).forEach((value, at) => {
      expect(decoded.readFloatLE(4 * at)).toBe(Math.fround(value));
    });
    expect(length(numbers(raw))).not.toBeCloseTo(1, 2);
    const own = await all(
      engine.embed(
        [8, null, 65, 'few'].map((dimensions) => ({ prompt: 'Well? ', dimensions: dimensions as number })),
        { dimensions: 16 },
      ),
    );
    expect(own.map(({ embedding, error }) => error?.message ?? embedding?.length)).toEqual([
      8,
      16,
      'dimensions: found 65, expected a whole number from 1 to 64, those that the model has',
      'dimensions: found "few", expected a whole number from 1 to 64, those that the model has',
    ]);
    expect(own[0]?.embedding).toEqual(numbers(cut));
    expect(() => engine.embed([], { dimensions: 65 })).toThrow(
      /dimensions: found 65, expected a whole number from 1 to 64/,
    );
    expect(() => engine.embed([], { pooling: 'sum' as 'mean' })).toThrow(
      /pooling: found "sum", expected one of auto, last, mean, cls/,
    );
  });
});

test('rows that are too long are cut where that is asked for, told, counted, and equal to those that were short', async () => {
  await using chat = await tinyChatModel();
  await using engine = await Engine.open({ model: chat.path, batchSize: 3, tokensPerSquare: 256 });
  const long = 'x'.repeat(3000);
  const kept = 'x'.repeat(2041);
  let stats: RunStats | undefined;
  const run = { onStats: (told: RunStats) => (stats = told), truncate: 'tail' } as const;
  const rows = [{ prompt: long }, { prompt: kept }, { prompt: 'short' }];
  const generated = await all(engine.generate(rows, { ...run, maxNewTokens: 8 }));
  expect(generated.map(({ usage, truncated }) => [usage.promptTokens, truncated])).toEqual([
    [2041, 959],
    [2041, undefined],
    [5, undefined],
  ]);
  expect(generated[1]?.tokens).toEqual(generated[0]?.tokens);
  expect(generated[2]).not.toHaveProperty('truncated');
  expect(stats?.rows).toMatchObject({ done: 3, failed: 0, truncated: 1 });
  expect(stats?.sharing.rowsEqual).toBe(1);

  const cut = (results: readonly { readonly truncated?: number; readonly error?: unknown }[]): unknown =>
    results.map(({ truncated, error }) => error ?? truncated);
  const labels = ['yes', 'no!!'];
  expect(cut(await all(engine.classify(rows, { ...run, labels })))).toEqual([955, undefined, undefined]);
  expect(cut(await all(engine.score(rows, { ...run, completions: labels })))).toEqual([955, undefined, undefined]);
  expect(cut(await all(engine.embed(rows, run)))).toEqual([952, undefined, undefined]);
  expect(stats?.rows.truncated).toBe(1);
  expect(await all(engine.embed([{ prompt: long }]))).toMatchObject([{ error: { code: 'too-long' } }]);
  expect(() => engine.embed([], { truncate: 'begin' as never })).toThrow(UsageError);
});

test('a job writes how much was cut of its rows, in lines and in a column, and goes on with the same cut alone', async () => {
  await using chat = await tinyChatModel();
  await using engine = await Engine.open({ model: chat.path, batchSize: 3, tokensPerSquare: 256 });
  const folder = await mkdtemp(join(tmpdir(), 'spillway-truncate-'));
  try {
    const input = join(folder, 'in.jsonl');
    const lines = [{ text: 'x'.repeat(5 * 2 ** 20) }, { text: 'short' }, { text: 'y'.repeat(2000) }];
    await writeFile(input, lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
    const generate = { promptTemplate: 'Say {{text}}!', maxNewTokens: 64, truncate: 'middle' } as const;
    const job = async (name: string, more: GenerateOptions = {}, resume = false): Promise<string> => {
      const output = join(folder, name);
      await runJob({ engine, input, output, resume, generate: { ...generate, ...more } });
      return readFile(output, 'utf8');
    };
    const results = (await job('out.jsonl'))
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as RowResult);
    expect(results.map(({ truncated, usage, error }) => [error, truncated, usage.promptTokens])).toEqual([
      [undefined, 5 * 2 ** 20 + 5 - 1985, 1985],
      [undefined, undefined, 10],
      [undefined, undefined, 2005],
    ]);
    const table = await job('out.csv');
    expect(table.slice(0, table.indexOf('\n'))).toMatch(/,completion_tokens,truncated\r?$/);
    expect(table).toMatch(/,1985,\d+,5240900\r?\n/);
    expect(await job('off.csv', { truncate: 'off' })).not.toContain('truncated');
    await job('out.jsonl', {}, true);
    await expect(job('out.jsonl', { truncate: 'tail' }, true)).rejects.toThrow(/truncate \(was/);
  } finally {
    await rm(folder, { recursive: true });
  }
});
