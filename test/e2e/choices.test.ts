import { afterAll, beforeAll, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { Engine, type Row, type RowResult } from '../../src/index.js';
import type { RunOptions } from '../../src/engine/rows/Generation.js';
import { describeGrammars } from '../support/grammars.js';
import { tinyChatModel } from '../support/tinyChatModel.js';
import { at } from './support.js';

const collect = async <T>(results: AsyncIterable<T>): Promise<T[]> => {
  const all: T[] = [];
  for await (const result of results) all.push(result);
  return all;
};

/** A tiny random model: which choice it takes means nothing, and has to be the one that `classify` takes. */
describeGrammars('choices at temperature 0', () => {
  let model: Awaited<ReturnType<typeof tinyChatModel>>;
  let engine: Engine;
  beforeAll(async () => {
    model = await tinyChatModel();
    engine = await Engine.open({ model: model.path, batchSize: 8, learn: false });
  });
  afterAll(async () => {
    await engine.close();
    await model[Symbol.asyncDispose]();
  });

  const held = (choices: readonly string[]): Pick<Row, 'responseFormat'> => ({
    responseFormat: { type: 'choices', choices },
  });
  const answers = (rows: readonly Row[], options: RunOptions = {}): Promise<RowResult[]> =>
    collect(engine.generate(rows, options));
  const labels = async (rows: readonly Row[]): Promise<(string | undefined)[]> =>
    (await collect(engine.classify(rows, { labelEnd: true }))).map(({ label }) => label);

  test('are those that classify takes, end token included, in any company', async () => {
    const text = fc.string({ unit: fc.constantFrom('a', 'b', 'c', ' ', 'é'), minLength: 1, maxLength: 8 });
    const row = fc.record({
      prompt: fc.string({ minLength: 1, maxLength: 30 }),
      // Beginnings of others, and those that begin alike.
      choices: fc
        .uniqueArray(text, { minLength: 1, maxLength: 12 })
        .map((texts) => [
          ...new Set([...texts, ...texts.map((each) => each.slice(0, 2)), ...texts.map((each) => `${each}a`)]),
        ]),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(row, { minLength: 1, maxLength: 8 }), async (drawn) => {
        const rows = drawn.map(({ prompt, choices }): Row => ({ prompt, ...held(choices) }));
        const expected = await labels(drawn.map(({ prompt, choices }) => ({ prompt, labels: choices })));
        const together = await answers(rows);
        expect(together.map(({ value }) => value)).toEqual(expected);
        expect(together.map((each) => [each.text, each.finishReason])).toEqual(expected.map((each) => [each, 'stop']));
        expect(await answers(rows, { sharePrefixes: false })).toEqual(together);
      }),
      { numRuns: 25 },
    );
  });

  test('of a thousand, of long ones, and with log-probabilities', async () => {
    const thousand = Array.from({ length: 1000 }, (_, nth) => `${(nth * 7919) % 1000}`);
    const long = Array.from({ length: 12 }, (_, nth) => `${'the same beginning '.repeat(2)}${nth} ${'x'.repeat(nth)}`);
    const prompts = ['one', 'another'];
    for (const choices of [thousand, long]) {
      const expected = await labels(prompts.map((prompt) => ({ prompt, labels: choices })));
      const rows = prompts.map((prompt): Row => ({ prompt, ...held(choices) }));
      const found = await answers(rows, { maxNewTokens: 200 });
      expect(found.map(({ value }) => value)).toEqual(expected);
      const told = await answers(rows, { maxNewTokens: 200, logprobs: 3 });
      expect(told.map(({ logprobs: _, ...result }) => result)).toEqual(found);
      for (const [nth, { tokens, logprobs = [] }] of told.entries()) {
        const prompt = at(prompts, nth);
        const [scores] = await collect(engine.score([{ prompt, completions: [tokens] }], { tokenLogprobs: true }));
        expect(logprobs.map(({ token, logprob }) => ({ token, logprob }))).toEqual(scores?.scores?.[0]?.tokenLogprobs);
        for (const { top } of logprobs) expect(top).toHaveLength(3);
      }
    }
  });

  test('a choice that its limit or a stop string cuts is an error, and can be tried again', async () => {
    const choices = ['aaaaaaaa', 'aaaaaaab'];
    const [cut] = await answers([{ prompt: 'x', ...held(choices), maxNewTokens: 3 }]);
    expect(cut).toMatchObject({ text: 'aaa', finishReason: 'error', error: { code: 'schema' } });
    const [stopped] = await answers([{ prompt: 'x', ...held(choices), stop: ['aab', 'aaa'] }]);
    expect(stopped).toMatchObject({ text: '', error: { code: 'schema' } });
    const [tried] = await answers([{ prompt: 'x', ...held(choices), maxNewTokens: 3, retries: 2 }]);
    expect(tried).toMatchObject({ attempts: 3, error: { code: 'schema' } });
    const [short] = await answers([{ prompt: 'x', ...held(['a', 'ab']), stop: ['b'] }]);
    expect(short?.text).toBe('a');
    const [far] = await answers([{ prompt: 'x', ...held(['a'.repeat(5000), 'b']) }]);
    expect(far?.error).toEqual({
      code: 'too-long',
      message: "the prompt has 1 tokens, and what is to stand after it 5001, the model's context holds 2048",
    });
  });

  test('an empty one, one alone and equal ones', async () => {
    const rows = [['', 'a'], ['only'], ['b', 'b', 'a'], ['']].map((choices): Row => ({
      prompt: 'x',
      ...held(choices),
    }));
    const found = await answers(rows);
    expect(found.map(({ error }) => error)).toEqual(rows.map(() => undefined));
    expect(found.map(({ text }) => text)).toEqual([
      expect.stringMatching(/^a?$/),
      'only',
      expect.stringMatching(/^[ab]$/),
      '',
    ]);
  });
});
