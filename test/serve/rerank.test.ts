import { expect, test } from '@jest/globals';
import { Engine } from '../../src/Engine.js';
import { stubServer } from './support/served.js';

const MODEL = 'test/fixtures/encoders/bert-pairs';
const query = 'which cat?';
const documents = ['the cat sat', 'a dog', { text: 'sun' }, 'moon and stars'];
const texts = ['the cat sat', 'a dog', 'sun', 'moon and stars'];

interface Ranked {
  readonly id: string;
  readonly model: string;
  readonly results: readonly { readonly index: number; readonly relevance_score: number; readonly document?: object }[];
  readonly usage: { readonly prompt_tokens: number; readonly total_tokens: number };
}

test('documents are ranked as the engine ranks them, under the paths of Jina and Cohere', async () => {
  const server = await stubServer({ models: [{ name: 'ranker', open: () => Engine.open({ model: MODEL }) }] });
  const rank = async (path: string, more: object = {}): Promise<Ranked> => {
    const response = await server.post(path, { model: 'ranker', query, documents, ...more });
    expect(response.status).toBe(200);
    return (await response.json()) as Ranked;
  };
  await using engine = await Engine.open({ model: MODEL });
  for (const path of ['/v1/rerank', '/v2/rerank', '/rerank']) {
    const { results, usage, model } = await rank(path);
    expect(model).toBe('ranker');
    for await (const own of engine.rerank([{ query, documents: texts }])) {
      const best = (own.scores ?? [])
        .map(({ score }, index) => ({ index, relevance_score: score, document: { text: texts[index] } }))
        .sort((a, b) => b.relevance_score - a.relevance_score);
      expect(results).toEqual(best);
      expect(usage).toEqual({ prompt_tokens: own.usage.promptTokens, total_tokens: own.usage.promptTokens });
    }
  }
  const { results: all } = await rank('/v1/rerank');
  const { results: two } = await rank('/v1/rerank', { top_n: 2, return_documents: false });
  expect(two).toEqual(all.slice(0, 2).map(({ index, relevance_score }) => ({ index, relevance_score })));
  // More than one row may have.
  const many = Array.from({ length: 1500 }, (_, at) => (at === 1400 ? 'the cat sat' : `x ${at % 3}`));
  const { results } = await rank('/v1/rerank', { documents: many });
  expect(new Set(results.map(({ index }) => index)).size).toBe(1500);
  expect(results.map(({ relevance_score: score }) => score)).toEqual(
    [...results.map(({ relevance_score: score }) => score)].sort((a, b) => b - a),
  );
});

test.each([
  [{ query: 3 }, /query: found 3/],
  [{ documents: [] }, /documents: found a list of 0/],
  [{ documents: [3] }, /documents\[0\]: found 3/],
  [{ top_n: 0 }, /top_n: found 0/],
  [{ topn: 1 }, /found the field "topn"/],
])('%j is refused', async (more, message) => {
  const server = await stubServer({ models: [{ name: 'ranker', open: () => Engine.open({ model: MODEL }) }] });
  const response = await server.post('/v1/rerank', { query, documents, ...more });
  expect(response.status).toBe(400);
  expect(((await response.json()) as { error: { message: string } }).error.message).toMatch(message);
});
