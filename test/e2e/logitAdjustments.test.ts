import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { Engine, type Row, type RowResult } from '../../src/index.js';
import { tinyChatModel } from '../support/tinyChatModel.js';
import { at, collect } from './support.js';

let tiny: Awaited<ReturnType<typeof tinyChatModel>>;
let engine: Engine;
let vocabulary: number;
beforeAll(async () => {
  tiny = await tinyChatModel();
  engine = await Engine.open({ model: tiny.path, batchSize: 4, tokensPerSquare: 32, learn: false });
  vocabulary = engine.source.decoder.vocabularySize;
});
afterAll(async () => {
  await engine.close();
  await tiny[Symbol.asyncDispose]();
});

const generate = async (rows: readonly Row[], options: object = {}): Promise<RowResult[]> =>
  collect(engine.generate(rows, { ignoreEos: true, ...options }));
const one = async (row: Row, options: object = {}): Promise<RowResult> => at(await generate([row], options), 0);

/** The logits after each token of an answer, but for a number that they have in common: by token. */
const logitsOf = ({ logprobs = [] }: RowResult): Float32Array[] =>
  logprobs.map(({ top }) => {
    const logits = new Float32Array(vocabulary);
    for (const { token, logprob } of top) logits[token] = logprob;
    return logits;
  });

const add = (logits: Float32Array, id: number, what: number): void => {
  logits[id] = (logits[id] ?? 0) + what;
};

describe('what changes logits', () => {
  test('each greedy token is the best after biases and penalties, and no other row has them', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.record({
          presencePenalty: fc.constantFrom(-2, -0.5, 0, 1, 2),
          frequencyPenalty: fc.constantFrom(-1, 0, 0.25, 2),
          logitBias: fc.dictionary(fc.nat(vocabulary - 1).map(String), fc.integer({ min: -100, max: 100 }), {
            maxKeys: 4,
          }),
          tokens: fc.array(fc.nat(vocabulary - 1), { minLength: 1, maxLength: 6 }),
        }),
        async ({ tokens, ...given }) => {
          const plain: Row = { tokens, maxNewTokens: 10 };
          const [adjusted, neighbour] = await generate([{ ...plain, ...given }, plain], { logprobs: vocabulary });
          if (!adjusted || !neighbour) throw new Error('two results are needed');
          expect(neighbour).toEqual({ ...(await one(plain, { logprobs: vocabulary })), id: 2, index: 1 });
          expect(adjusted.tokens.length).toBe(10);
          logitsOf(adjusted).forEach((logits, step) => {
            for (const [id, bias] of Object.entries(given.logitBias)) add(logits, Number(id), bias);
            const before = adjusted.tokens.slice(0, step);
            for (const id of new Set(before))
              add(
                logits,
                id,
                -given.presencePenalty - given.frequencyPenalty * before.filter((each) => each === id).length,
              );
            // Log-probabilities are rounded: a tie within that is a tie.
            expect(logits[at(adjusted.tokens, step)]).toBeGreaterThan(Math.max(...logits) - 1e-4);
          });
        },
      ),
      { numRuns: 40 },
    );
  });

  test('a row ends at its stop tokens, which it leaves out, and not before its least of new ones', async () => {
    const whole = await one({ tokens: [5, 6, 7], maxNewTokens: 12 });
    const stop = at(whole.tokens, 4);
    const first = whole.tokens.indexOf(stop);
    const ended = await one({ tokens: [5, 6, 7], maxNewTokens: 12, stopTokenIds: [stop] });
    expect(ended).toMatchObject({ tokens: whole.tokens.slice(0, first), finishReason: 'stop' });
    const later = await one({ tokens: [5, 6, 7], maxNewTokens: 12, stopTokenIds: [stop], minNewTokens: 9 });
    expect(later.tokens.length).toBeGreaterThanOrEqual(9);
    expect(later.tokens.slice(0, 9)).not.toContain(stop);
  });

  test('a bad word does not come, its beginning may', async () => {
    const whole = await one({ tokens: [5, 6, 7], maxNewTokens: 12 });
    const text = engine.tokenizer.decode(whole.tokens.slice(0, 3));
    const kept = await one({ tokens: [5, 6, 7], maxNewTokens: 12, badWords: [text] });
    expect(kept.error).toBeUndefined();
    const spelled = engine.tokenizer.encode(text, { specialTokens: false, continues: true }).join();
    expect(`,${kept.tokens.join()},`).not.toContain(`,${spelled},`);
  });

  test.each([
    [{ minNewTokens: 13 }, "minNewTokens: found 13, expected a whole number from 0 to 12, the row's maxNewTokens"],
    [{ stopTokenIds: [1e9] }, 'stopTokenIds[0]: found 1000000000'],
    [{ presencePenalty: 3 }, 'presencePenalty: found 3, expected a number from -2 to 2'],
    [{ logitBias: { 1e6: 1 } }, 'logitBias[1000000]: found 1000000'],
    [
      { badWords: ['a'], responseFormat: { type: 'choices', choices: ['a', 'b'] } },
      'badWords: found it beside a responseFormat',
    ],
  ])('%j is refused, and costs no other row anything', async (given, message) => {
    const [bad, good] = await generate([
      { tokens: [5, 6, 7], maxNewTokens: 12, ...given } as Row,
      { tokens: [5], maxNewTokens: 2 },
    ]);
    expect(bad?.error?.message).toContain(message);
    expect(good?.error).toBeUndefined();
  });

  test('a stop string that is a control token is found by its id', async () => {
    const text = '<|im_start|>';
    const id = engine.tokenizer.controlToken(text) ?? -1;
    const forced = { tokens: [5, 6, 7], maxNewTokens: 12, logitBias: { [id]: 100 } };
    expect((await one(forced)).tokens).toContain(id);
    expect(await one({ ...forced, stop: [text] })).toMatchObject({ tokens: [], finishReason: 'stop' });
  });
});
