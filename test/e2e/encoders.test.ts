import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { Engine, type ClassifyResult, type EmbedOptions, type EngineOptions } from '../../src/index.js';
import { loadAddon } from '../../src/bindings/loadAddon.js';
import { readModel } from '../../src/model/readModel.js';
import { encoderNamed, fixtureEncoders, type EncodedRow } from '../support/model/fixtureEncoders.js';
import { at } from './support.js';

const { instructionSets } = loadAddon().machine();

type Embedding = readonly number[];

async function embedded(
  options: EngineOptions,
  rows: readonly Pick<EncodedRow, 'tokens'>[],
  embed: EmbedOptions = {},
): Promise<Embedding[]> {
  await using engine = await Engine.open(options);
  const all: Embedding[] = [];
  for await (const { embedding, error } of engine.embed(
    rows.map(({ tokens }) => ({ tokens })),
    embed,
  )) {
    if (error) throw new Error(error.message);
    all.push(embedding as Embedding);
  }
  return all;
}

const floats = (text = ''): Float32Array => new Float32Array(Uint8Array.from(Buffer.from(text, 'base64')).buffer);
const dot = (a: ArrayLike<number>, b: ArrayLike<number>): number =>
  Array.from(a).reduce((sum, value, i) => sum + value * (b[i] ?? NaN), 0);
const cosine = (a: ArrayLike<number>, b: ArrayLike<number>): number => dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));

/** Rows of one text: those of pairs have token types, which rows of tokens do not. */
const plain = (rows: readonly EncodedRow[]): readonly EncodedRow[] =>
  rows.filter(({ secondText }) => secondText === undefined);

describe('each family is what transformers computes', () => {
  const embedders = fixtureEncoders.filter(({ classifies }) => !classifies);

  describe.each(embedders)('$name', ({ path, rows }) => {
    test.each(['mean', 'cls'] as const)('%s', async (pooling) => {
      const own = plain(rows);
      expect(own.length).toBeGreaterThan(1);
      const options = { model: path, precision: 'float32' } as const;
      const made = await embedded(options, own, { pooling, normalize: false });
      own.forEach((row, i) => {
        const expected = floats(row[pooling]);
        const found = at(made, i);
        expect(cosine(found, expected)).toBeGreaterThan(1 - 1e-5);
        found.forEach((value, c) => {
          expect(Math.abs(value - at(Array.from(expected), c))).toBeLessThan(1e-4);
        });
      });
    });

    test('in 8 bits nearly so', async () => {
      const own = plain(rows);
      const made = await embedded({ model: path }, own, { pooling: 'mean', normalize: false });
      // Random weights lose more to rounding than trained ones, whose rows are of a kind.
      own.forEach((row, i) => {
        expect(cosine(at(made, i), floats(row.mean))).toBeGreaterThan(0.995);
      });
    });
  });
});

describe('a row does not depend on its company', () => {
  const rows = Array.from({ length: 24 }, (_, i) => ({
    tokens: Array.from({ length: 1 + ((i * 11) % 61) }, (__, j) => (i * 31 + j * 17 + 3) % 250),
  }));

  test.each(['bert', 'mpnet', 'modernbert', 'jina-bert', 'embedding-gemma', 'deberta-v3', 'albert'])(
    '%s',
    async (name) => {
      const { path } = encoderNamed(name);
      for (const precision of ['default', 'float32'] as const) {
        const alone: Embedding[] = [];
        for (const row of rows.slice(0, 6))
          alone.push(at(await embedded({ model: path, precision, batchSize: 1 }, [row]), 0));
        const together = await embedded({ model: path, precision }, rows);
        expect(together.slice(0, 6)).toEqual(alone);
        const turned = await embedded({ model: path, precision, threads: 2 }, [...rows].reverse());
        expect([...turned].reverse()).toEqual(together);
        await fc.assert(
          fc.asyncProperty(
            fc.record({
              batchSize: fc.integer({ min: 1, max: 24 }),
              batches: fc.integer({ min: 1, max: 3 }),
              tokensPerSquare: fc.integer({ min: 64, max: 300 }),
              schedule: fc.constantFrom('row', 'zigzag', 'diagonal'),
            }),
            async (block) => {
              expect(await embedded({ model: path, precision, ...block }, rows)).toEqual(together);
            },
          ),
          { numRuns: 4 },
        );
      }
    },
  );

  test.each(['mpnet', 'deberta-v3', 'deberta-v2-own'])(
    'nor on the instruction set, in float32 and in 8 bits (AMX apart): %s',
    async (name) => {
      const { path } = encoderNamed(name);
      for (const precision of ['default', 'float32'] as const) {
        const made = await Promise.all(
          instructionSets
            .filter((set) => set !== 'amx')
            .map((instructionSet) => embedded({ model: path, precision, instructionSet }, rows)),
        );
        for (const each of made) expect(each).toEqual(made[0]);
      }
    },
  );

  test.each(['modernbert', 'deberta-v2-own'])('nor on whether its layers stream: %s', async (name) => {
    const { path } = encoderNamed(name);
    const whole = await embedded({ model: path }, rows);
    const streamed = await embedded({ model: path, weights: { cpu: 0, disk: 1 }, batches: 3, batchSize: 4 }, rows);
    expect(streamed).toEqual(whole);
  });
});

test.each(['bert', 'mpnet', 'nomic-bert', 'gte', 'roberta'])(
  '%s: in 8 bits values, and what the last layers begin with, are as in the file, and outputs say so',
  async (name) => {
    const { path } = encoderNamed(name);
    const { bindings } = await readModel(path);
    const kept = bindings.filter(({ notEightBits }) => notEightBits).map(({ role, layer }) => `${role} ${layer}`);
    const gated = bindings.some(({ role }) => role === 'gate.weight');
    expect(new Set(kept)).toEqual(
      new Set([0, 1, 2].map((layer) => `v.weight ${layer}`).concat('up.weight 2', gated ? ['gate.weight 2'] : [])),
    );
    await using usual = await Engine.open({ model: path });
    await using float = await Engine.open({ model: path, precision: 'float32' });
    expect(usual.resultIdentity).toMatchObject({ compressWeights: '8bit', sixteenBits: kept.length });
    expect(float.resultIdentity).not.toHaveProperty('sixteenBits');
  },
);

test('of a text that is too long the last tokens are cut, as sentence-transformers cuts them', async () => {
  await using engine = await Engine.open({ model: encoderNamed('distilbert-labels').path, precision: 'float32' });
  // Words of some tokens each, which do not spell what was written.
  const words = ['WRITTEN', 'weimar', 'Wéather', 'Rained,', 'FAUST', 'göethe', 'over', 'Thank'];
  const prompts = words.map((_, first) =>
    Array.from({ length: 200 }, (__, i) => at(words, (first + i * (i % 3)) % words.length)).join(' '),
  );
  const whole = prompts.map((prompt) => engine.tokenizer.encode(prompt));
  const cut = whole.map((tokens) => ({ tokens: [...tokens.slice(0, 127), at(tokens, tokens.length - 1)] }));
  const made: ClassifyResult[] = [];
  for await (const result of engine.classify([...prompts.map((prompt) => ({ prompt })), ...cut], { truncate: 'tail' }))
    made.push(result);
  const [texts, ids] = [made.slice(0, words.length), made.slice(words.length)];
  expect(texts.map(({ probabilities }) => probabilities)).toEqual(ids.map(({ probabilities }) => probabilities));
  expect(texts.map(({ truncated }) => truncated)).toEqual(whole.map(({ length }) => length - 128));
});

describe('what an encoder is not', () => {
  const { path } = encoderNamed('bert');

  test('it generates nothing, and has no likelihoods', async () => {
    await using engine = await Engine.open({ model: path });
    const rows = [{ prompt: 'x' }];
    expect(() => engine.generate(rows)).toThrow('generate: found a model of the family bert, an encoder');
    expect(() => engine.score(rows, { completions: ['a'] })).toThrow('score: found a model of the family bert');
    await expect(engine.perplexity([1, 2, 3], { window: 3 })).rejects.toThrow('perplexity: found a model');
  });

  test.each([
    [{ layers: { first: 0, count: 2 } }, 'layers: found some'],
    [{ tensorParallel: { index: 0, of: 2 } }, 'tensorParallel: found some'],
    [{ cache: { cpu: 0.5, disk: 0.5 } }, 'cache: found a share on disk'],
  ] satisfies [Partial<EngineOptions>, string][])('it is not opened with %j', async (options, message) => {
    await expect(Engine.open({ model: path, ...options })).rejects.toThrow(message);
  });

  test('a row that no square holds is an error of its own', async () => {
    await using engine = await Engine.open({ model: path, tokensPerSquare: 32, batchSize: 8 });
    const rows = [{ tokens: Array.from({ length: 33 }, () => 7) }, { tokens: Array.from({ length: 32 }, () => 7) }];
    const results = [];
    for await (const result of engine.embed(rows)) results.push(result);
    expect(results[0]?.error).toMatchObject({
      code: 'memory',
      message: expect.stringContaining('a square holds 32, and an encoder computes a row as a whole'),
    });
    expect(results[1]?.embedding).toHaveLength(64);
  });
});
