import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import {
  Engine,
  rerank,
  type ClassifyOptions,
  type ClassifyResult,
  type RerankResult,
  type RowInput,
} from '../../src/index.js';
import { from, lastValueFrom, toArray } from 'rxjs';
import { encoderNamed, fixtureEncoders } from '../support/model/fixtureEncoders.js';
import { model } from './support.js';

const sigmoid = (logit: number): number => 1 / (1 + Math.exp(-logit));
const softmax = (logits: readonly number[]): number[] => {
  const weights = logits.map((logit) => Math.exp(logit - Math.max(...logits)));
  return weights.map((weight) => weight / weights.reduce((sum, each) => sum + each, 0));
};
const close = (value: number): unknown => expect.closeTo(value, 4);

async function all<Result>(results: AsyncIterable<Result>): Promise<Result[]> {
  const made: Result[] = [];
  for await (const result of results) made.push(result);
  return made;
}

const pairs = encoderNamed('bert-pairs');
const nli = encoderNamed('xlm-roberta-labels');

/** The pairs of the references, a row a query. */
const joined = pairs.texts.filter(([, second]) => second !== null);
const queries = [...new Set(joined.map(([query]) => query))];
const ofQuery = queries.map((query) => joined.filter(([first]) => first === query));
const rows = ofQuery.map((texts, i) => ({ query: queries[i] ?? '', documents: texts.map(([, text]) => text ?? '') }));
const logits = ofQuery.map((texts) => texts.map(([, , [logit = NaN]]) => logit));

describe('rerank', () => {
  test('scores are those of transformers, whether documents come together or one by one', async () => {
    await using engine = await Engine.open({ model: pairs.path, precision: 'float32' });
    const together = await all(engine.rerank(rows));
    expect(together).toEqual(
      logits.map((own, index) => ({
        id: index + 1,
        index,
        scores: own.map((logit) => ({ score: close(sigmoid(logit)), logit: close(logit) })),
        usage: { promptTokens: expect.any(Number), completionTokens: 0 },
      })),
    );
    const alone = rows.flatMap(({ query, documents }) => documents.map((document) => ({ query, document })));
    const one = await all(engine.rerank(alone));
    expect(one.flatMap(({ scores }) => scores)).toEqual(together.flatMap(({ scores }) => scores));
    const streamed = await lastValueFrom(from<RowInput[]>(alone).pipe(rerank(engine), toArray()));
    expect(streamed).toEqual(one);
  });

  test('bits depend on no company', async () => {
    const results: RerankResult[][] = [];
    for (const batchSize of [1, 3, 64]) {
      await using engine = await Engine.open({ model: pairs.path, batchSize });
      results.push(await all(engine.rerank([...rows, ...rows.map((row, i) => ({ ...row, id: `again ${i}` }))])));
    }
    for (const each of results) expect(each).toEqual(results[0]);
  });

  test.each([
    [{ query: 'a', documents: [] }, 'documents: found 0, expected 1 to 1024 texts'],
    [{ query: 'a' }, 'found neither document nor documents, expected one of them'],
    [{ query: 'a', document: 'b', documents: ['c'] }, 'found document and documents, expected one of them'],
    [{ query: 'a', documents: ['b', 7] }, 'documents[1]: found 7, expected a text'],
    [{ query: 7, document: 'b' }, 'query: found 7, expected a text'],
    [{ prompt: 'a' }, 'query: found nothing, expected a text'],
    [{ query: 'a', document: 'b '.repeat(200) }, "a pair of texts has 204 tokens, the model's context holds 128"],
  ])('a row %j is an error of its own', async (row, message) => {
    await using engine = await Engine.open({ model: pairs.path });
    const [bad, good] = await all(engine.rerank([row as unknown as RowInput, { query: 'a', document: 'b' }]));
    expect(bad?.error?.message).toContain(message);
    expect(good?.scores).toHaveLength(1);
  });

  test('a token that only the tokenizer knows is an error of its row', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'spillway-rerank-'));
    try {
      await cp(pairs.path, folder, { recursive: true });
      const file = join(folder, 'tokenizer.json');
      const tokenizer = JSON.parse(await readFile(file, 'utf8')) as { added_tokens: object[] };
      tokenizer.added_tokens.push({ id: 300, content: 'zyzzyva', special: false, normalized: false });
      await writeFile(file, JSON.stringify(tokenizer));
      await using engine = await Engine.open({ model: folder });
      const rows = ['zyzzyva', 'b'].map((document) => ({ query: 'a', document }));
      const [bad, good] = await all(engine.rerank(rows));
      expect(bad?.error?.message).toContain('found 300, expected ids from 0 to 255');
      expect(good?.scores).toHaveLength(1);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });

  test('of a document that is too long as much is cut as has to be', async () => {
    await using engine = await Engine.open({ model: pairs.path });
    const [whole, cut] = await all(
      engine.rerank(
        [
          { query: 'a', document: 'b '.repeat(124) },
          { query: 'a', document: 'b '.repeat(200) },
        ],
        { truncate: 'tail' },
      ),
    );
    expect(cut).toMatchObject({ scores: whole?.scores, truncated: 76, usage: { promptTokens: 128 } });
  });

  test('it takes a model with one score', async () => {
    await using labels = await Engine.open({ model: nli.path });
    expect(() => labels.rerank(rows)).toThrow('rerank: found a model with 3 labels, expected one with a single score');
    await using decoder = await Engine.open({ model: model('llama') });
    expect(() => decoder.rerank(rows)).toThrow('without a head that classifies');
    await using encoder = await Engine.open({ model: encoderNamed('bert').path });
    expect(() => encoder.rerank(rows)).toThrow('without a head that classifies');
  });
});

describe('classify with a head of the model', () => {
  const own = async (
    path: string,
    given: readonly RowInput[],
    options: ClassifyOptions = {},
  ): Promise<ClassifyResult[]> => {
    await using engine = await Engine.open({ model: path, precision: 'float32' });
    return await all(engine.classify(given, options));
  };

  test.each(fixtureEncoders.filter(({ classifies }) => classifies))('$name', async ({ path, rows: known, texts }) => {
    const plain = known.filter(({ secondText }) => secondText === undefined);
    const single = texts.filter(([, second]) => second === null);
    const results = await own(path, [
      ...plain.map(({ tokens }) => ({ tokens })),
      ...single.map(([prompt]) => ({ prompt })),
    ]);
    const expected = [...plain.map((row) => row.logits ?? []), ...single.map(([, , found]) => found)];
    expect(results).toHaveLength(expected.length);
    results.forEach(({ label, probability, probabilities = {} }, i) => {
      const found = expected[i] ?? [];
      const shares = found.length === 1 ? found.map(sigmoid) : softmax(found);
      expect(Object.values(probabilities)).toEqual(shares.map(close));
      expect(probability).toBe(Math.max(...Object.values(probabilities)));
      expect(probabilities[label ?? '']).toBe(probability);
    });
  });

  test('labels are those of the files', async () => {
    const [result] = await own(encoderNamed('distilbert-labels').path, [{ prompt: 'a' }]);
    expect(Object.keys(result?.probabilities ?? {})).toEqual(['NEGATIVE', 'POSITIVE']);
  });

  test('labels of the caller, by what follows from a text', async () => {
    const prompt = 'who wrote faust?';
    const labels = ['goethe did.', 'it rained.'];
    const [result] = await own(nli.path, [{ prompt }], { labels, hypothesisTemplate: '{}' });
    const entailment = labels.map(
      (label) => nli.texts.find(([first, second]) => first === prompt && second === label)?.[2][0] ?? NaN,
    );
    expect(Object.values(result?.probabilities ?? {})).toEqual(softmax(entailment).map(close));
  });

  test('what does not go together is refused', async () => {
    await using engine = await Engine.open({ model: encoderNamed('distilbert-labels').path });
    const ask = (options: ClassifyOptions) => () => engine.classify([{ prompt: 'a' }], options);
    expect(ask({ labels: ['a', 'b'] })).toThrow(
      'labels: found some for a model with labels of its own (NEGATIVE, POSITIVE)',
    );
    expect(ask({ labelEnd: true })).toThrow('labelPrior, labelEnd: found one for a model with labels of its own');
    expect(ask({ hypothesisTemplate: '{}' })).toThrow('hypothesisTemplate: found one without labels');
    expect(() => engine.embed([{ prompt: 'a' }])).toThrow('embed: found a model that classifies texts');
    await using other = await Engine.open({ model: nli.path });
    expect(() => other.classify([{ prompt: 'a' }], { labels: ['a'], hypothesisTemplate: 'x' })).toThrow(
      'expected a text with {} for the label',
    );
  });
});
