import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { embed, embedMany, experimental_decide as decide, experimental_extract as extract, rerank } from 'ai';
import {
  AISDKError,
  Experimental_DecisionUnsupportedQuestionTypeError as UnsupportedQuestion,
  Experimental_ExtractionUnsupportedFieldTypeError as UnsupportedField,
  InvalidArgumentError,
  InvalidPromptError,
  TooManyEmbeddingValuesForCallError,
  UnsupportedFunctionalityError,
} from '@ai-sdk/provider';
import { createSpillway, type SpillwayProvider } from '../../src/aiSdk/createSpillway.js';
import { fieldAnswer } from '../../src/aiSdk/extractionFields.js';
import { Engine } from '../../src/Engine.js';
import { testGrammars } from '../support/grammars.js';
import { tinyChatModel } from '../support/tinyChatModel.js';

const RANKS = 'test/fixtures/encoders/bert-pairs';

let model: Awaited<ReturnType<typeof tinyChatModel>>;
let provider: SpillwayProvider;

beforeAll(async () => {
  model = await tinyChatModel();
  provider = createSpillway();
});

afterAll(async () => {
  await provider.close();
  await model[Symbol.asyncDispose]();
});

const thrown = async (call: () => PromiseLike<unknown>): Promise<unknown> => {
  try {
    await call();
    return undefined;
  } catch (error) {
    return error;
  }
};

test('embeddings are those of the engine, in the order of their texts', async () => {
  const values = ['a cat', 'a dog', 'the sun and the moon'];
  const { embeddings, usage } = await embedMany({
    model: provider.embeddingModel(model.path),
    values,
    maxParallelCalls: 2,
  });
  await using engine = await Engine.open({ model: model.path });
  const own: unknown[] = [];
  let tokens = 0;
  for await (const each of engine.embed(values.map((prompt) => ({ prompt })))) {
    own.push(each.embedding);
    tokens += each.usage.promptTokens;
  }
  expect(embeddings).toEqual(own);
  expect(usage.tokens).toBe(tokens);
  const one = await embed({ model: provider.embedding(model.path), value: 'a dog' });
  expect(one.embedding).toEqual(own[1]);
  const { embeddings: short } = await provider.embeddingModel(model.path).doEmbed({ values: ['a dog'], dimensions: 8 });
  expect(short[0]).toHaveLength(8);
  expect((await provider.embeddingModel(model.path).doEmbed({ values: [] })).embeddings).toEqual([]);
});

test('more texts than a call may have go in several', async () => {
  const values = Array.from({ length: 2050 }, (_, at) => `text ${at % 7}`);
  const { embeddings } = await embedMany({ model: provider.embeddingModel(model.path), values });
  expect(embeddings).toHaveLength(2050);
  expect(embeddings[2049]).toEqual(embeddings[5]);
  const error = await thrown(() => provider.embeddingModel(model.path).doEmbed({ values }));
  expect(TooManyEmbeddingValuesForCallError.isInstance(error)).toBe(true);
});

test('documents are ranked by the cross-encoder, texts and objects', async () => {
  const documents = ['the cat sat', 'a dog', 'sun', 'moon and stars'];
  const query = 'which cat?';
  const { ranking, rerankedDocuments } = await rerank({ model: provider.rerankingModel(RANKS), query, documents });
  await using engine = await Engine.open({ model: RANKS });
  for await (const { scores = [] } of engine.rerank([{ query, documents }])) {
    const best = scores.map(({ score }, index) => ({ score, index })).sort((a, b) => b.score - a.score);
    expect(ranking.map(({ originalIndex, score }) => ({ score, index: originalIndex }))).toEqual(best);
    expect(rerankedDocuments[0]).toBe(documents[best[0]?.index ?? -1]);
  }
  const { ranking: two } = await rerank({ model: provider.reranking(RANKS), query, documents, topN: 2 });
  expect(two).toEqual(ranking.slice(0, 2));
  const objects = await provider
    .rerankingModel(RANKS)
    .doRerank({ query, documents: { type: 'object', values: [{ a: 1 }, { b: 'cat' }] } });
  expect(objects.ranking).toHaveLength(2);
  expect(objects.warnings).toMatchObject([{ type: 'compatibility' }]);
});

test('more documents than a row may have are ranked together', async () => {
  const documents = Array.from({ length: 1030 }, (_, at) => (at === 1027 ? 'the cat sat' : 'x'));
  const { ranking } = await provider
    .rerankingModel(RANKS)
    .doRerank({ query: 'cat', documents: { type: 'text', values: documents } });
  expect(new Set(ranking.map(({ index }) => index)).size).toBe(1030);
  const at = ranking.findIndex(({ index }) => index === 1027);
  expect([0, 1029]).toContain(at);
});

test('decisions have a probability for each answer, as classify tells', async () => {
  const { answers, usage } = await decide({
    model: provider.decisionModel(model.path),
    state: 'The parcel has not come.',
    questions: {
      topic: {
        type: 'choice',
        instructions: 'What is it about?',
        criteria: { delivery: 'parcels', __proto__x: null, '7': null },
      },
      anger: { type: 'score', criteria: ['calm', { level: 'cross' }, null] },
      urgent: { type: 'boolean', instructions: 'Is it urgent?', criteria: { true: 'today', false: null } },
      one: { type: 'score', criteria: ['only'] },
    },
  });
  const { topic, anger, urgent, one } = answers;
  expect(Object.keys(topic.probabilities ?? {}).sort()).toEqual(['7', '__proto__x', 'delivery']);
  expect(topic.probabilities?.[topic.choice as 'delivery']).toBe(Math.max(...Object.values(topic.probabilities ?? {})));
  expect(anger.score).toBeGreaterThan(0);
  expect(anger.score).toBeLessThan(2);
  expect(one.score).toBe(0);
  await using engine = await Engine.open({ model: model.path });
  const prompt = 'The parcel has not come.\n\nIs it urgent?\n- Yes: today\nAnswer Yes or No.';
  for await (const own of engine.classify([{ prompt, chat: true, labels: ['Yes', 'No'] }]))
    expect(urgent.probability).toBeCloseTo(own.probabilities?.['Yes'] ?? -1, 12);
  expect(usage.inputTokens).toBeGreaterThan(100);
});

testGrammars('values of fields are such values, or null', async () => {
  const fields = {
    name: { type: 'text', instructions: 'Who?' },
    age: { type: 'number', integer: true },
    height: { type: 'number', decimals: 1, unit: 'm' },
    born: { type: 'date' },
    at: { type: 'time' },
    seen: { type: 'datetime' },
    stay: { type: 'duration', unit: 'days' },
    tags: { type: 'list', items: 'date' },
  } as const;
  // What a model that means nothing writes of each kind is bounded: a text of it would go on.
  const { name: _, age, ...rest } = fields;
  const { answers, usage } = await extract({
    model: provider.extractionModel(model.path),
    state: [
      { type: 'text', text: 'Anna, 34, came on 2026-01-02.' },
      { type: 'json', value: { a: 1 } },
    ],
    fields: { at: rest.at, born: rest.born },
    referenceDate: '2026-11-29',
    maxOutputTokens: 128,
  });
  expect(Object.keys(answers)).toEqual(['at', 'born']);
  expect(usage.outputTokens).toBeGreaterThan(0);
  expect(age.integer).toBe(true);
});

test.each([
  [
    { type: 'text' },
    'Anna',
    { type: 'text', value: 'Anna', confidence: 0.5, source: { type: 'text', part: 1, start: 2, end: 6 } },
  ],
  [{ type: 'number', decimals: 2 }, 1.239, { type: 'number', value: 1.24, confidence: 0.5 }],
  [{ type: 'number' }, Infinity, { type: 'number', value: null, confidence: 0.5 }],
  [{ type: 'date' }, '2026-02-30', { type: 'date', value: null, confidence: 0.5 }],
  [{ type: 'datetime' }, '2026-02-28T10:00Z', { type: 'datetime', value: '2026-02-28T10:00Z', confidence: 0.5 }],
  [
    { type: 'list', items: 'number', decimals: 0 },
    [1.4, 2],
    { type: 'list', value: [1, 2], items: [{}, {}], confidence: 0.5 },
  ],
  [{ type: 'list', items: 'date' }, ['2026-13-01'], { type: 'list', value: null, confidence: 0.5 }],
  [{ type: 'list', items: 'text' }, null, { type: 'list', value: null, confidence: 0.5 }],
  [{ type: 'text' }, null, { type: 'text', value: null, confidence: 0.5 }],
] as const)('a field %j of %j', (field, given, expected) => {
  const state = [
    { type: 'json', value: 1 },
    { type: 'text', text: '- Anna' },
  ] as const;
  expect(fieldAnswer(field, given, 0.5, state)).toEqual(expected);
});

const PICTURE = [{ type: 'file', mediaType: 'image/png', data: { type: 'data', data: 'aGk=' } }] as const;

test.each<[string, () => PromiseLike<unknown>, (error: unknown) => boolean, RegExp]>([
  [
    'an embedding of no text',
    () => provider.embeddingModel(model.path).doEmbed({ values: [3 as never] }),
    InvalidArgumentError.isInstance,
    /values\[0\]: found 3/,
  ],
  [
    'dimensions that are not there',
    () => provider.embeddingModel(model.path).doEmbed({ values: ['a'], dimensions: 9999 }),
    InvalidArgumentError.isInstance,
    /9999/,
  ],
  [
    'an unknown option',
    () =>
      provider.embeddingModel(model.path).doEmbed({ values: ['a'], providerOptions: { spillway: { poolin: 'mean' } } }),
    InvalidArgumentError.isInstance,
    /did you mean pooling/,
  ],
  [
    'an embedding of nothing',
    () => provider.embeddingModel(model.path).doEmbed({ values: [''] }),
    InvalidPromptError.isInstance,
    /./,
  ],
  [
    'a ranking of no texts',
    () => provider.rerankingModel(RANKS).doRerank({ query: 'a', documents: { type: 'text', values: [{}] as never } }),
    InvalidArgumentError.isInstance,
    /documents.values\[0\]/,
  ],
  [
    'a ranking without a query',
    () => provider.rerankingModel(RANKS).doRerank({ documents: { type: 'text', values: ['a'] } } as never),
    InvalidArgumentError.isInstance,
    /query/,
  ],
  [
    'a ranking of none',
    () => provider.rerankingModel(RANKS).doRerank({ query: 'a', topN: 0, documents: { type: 'text', values: ['a'] } }),
    InvalidArgumentError.isInstance,
    /topN: found 0/,
  ],
  [
    'a ranking by a decoder',
    () => provider.rerankingModel(model.path).doRerank({ query: 'a', documents: { type: 'text', values: ['a'] } }),
    AISDKError.isInstance,
    /rerank|rank/,
  ],
  [
    'a text by an encoder',
    () => provider(RANKS).doGenerate({ prompt: [{ role: 'user', content: [{ type: 'text', text: 'a' }] }] }),
    AISDKError.isInstance,
    /encoder|generate/,
  ],
  [
    'a decision about a picture',
    () =>
      provider
        .decisionModel(model.path)
        .doDecide({ state: PICTURE, questions: { a: { type: 'boolean', instructions: 'b' } } }),
    UnsupportedFunctionalityError.isInstance,
    /unsupported-content/,
  ],
  [
    'a decision where something is',
    () => provider.decisionModel(model.path).doDecide({ state: [], questions: { a: { type: 'box' } } }),
    UnsupportedQuestion.isInstance,
    /box/,
  ],
  [
    'no decision',
    () => provider.decisionModel(model.path).doDecide({ state: [], questions: {} }),
    InvalidArgumentError.isInstance,
    /questions/,
  ],
  [
    'a decision without a name',
    () =>
      provider
        .decisionModel(model.path)
        .doDecide({ state: [], questions: { a: { type: 'choice', criteria: { '': null } } } }),
    InvalidArgumentError.isInstance,
    /labels/,
  ],
  [
    'no fields',
    () => provider.extractionModel(model.path).doExtract({ state: [], fields: {} }),
    InvalidArgumentError.isInstance,
    /fields/,
  ],
  [
    'another field',
    () => provider.extractionModel(model.path).doExtract({ state: [], fields: { a: { type: 'colour' as 'text' } } }),
    UnsupportedField.isInstance,
    /colour/,
  ],
  [
    'a field of a picture',
    () => provider.extractionModel(model.path).doExtract({ state: PICTURE, fields: { a: { type: 'text' } } }),
    UnsupportedFunctionalityError.isInstance,
    /unsupported-content/,
  ],
])('%s is refused with an error of the AI SDK', async (_, call, is, message) => {
  const error = await thrown(call);
  expect(error).toBeInstanceOf(Error);
  expect((error as Error).message).toMatch(message);
  expect(is(error)).toBe(true);
});
