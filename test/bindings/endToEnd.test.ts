import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { NativeRuntime, RuntimeOptions } from '../../src/bindings/Addon.js';
import { loadAddon } from '../../src/bindings/loadAddon.js';
import { referenceLogits, softmax } from './support/referenceDecoder.js';
import { greedyRow, PassRunner } from './support/runPass.js';
import { makeTinyModel, type TinyModel } from './support/tinyModel.js';

const addon = loadAddon();
const text = [3, 14, 15, 9, 26, 53, 58, 9, 7, 9, 32, 38, 46, 26, 43, 38, 32, 7, 60, 0];
let model: TinyModel;

beforeAll(() => {
  model = makeTinyModel();
});
afterAll(() => model.remove());

async function withRuntime(
  changes: Partial<RuntimeOptions>,
  use: (runtime: NativeRuntime, passes: PassRunner) => Promise<void>,
): Promise<void> {
  const runtime = addon.openRuntime(model.options(changes));
  try {
    await runtime.load(() => undefined);
    await use(runtime, new PassRunner(runtime, model.decoder.layers, runtime.createActivations(64)));
  } finally {
    await runtime.close();
  }
}

describe.each(addon.machine().instructionSets)('a tiny model on %s', (instructionSet) => {
  test('scores of a text equal those of plain double arithmetic', async () => {
    const logits = referenceLogits(model, text);
    const expected = text.slice(1).map((token, p) => Math.log(softmax(logits[p] ?? new Float64Array())[token] ?? 0));
    await withRuntime({ instructionSet }, async (runtime, passes) => {
      const row = runtime.createRow({ ...greedyRow, tokens: Int32Array.from(text), capacityTokens: text.length });
      const head = await passes.run([{ row, first: 0, tokens: text.length, mode: 'score', pages: [5, 2] }]);
      expect([...head.scored]).toEqual([row, 0, text.length - 1]);
      expect(head.scores).toHaveLength(expected.length);
      expected.forEach((score, p) => expect(Math.abs((head.scores[p] ?? NaN) - score)).toBeLessThan(1e-4));
    });
  });

  test('greedy tokens and their log-probabilities equal those of plain double arithmetic', async () => {
    await withRuntime({ instructionSet }, async (runtime, passes) => {
      const tokens = text.slice(0, 7);
      const row = runtime.createRow({ ...greedyRow, tokens: Int32Array.from(tokens), capacityTokens: 30, logprobs: 2 });
      for (let first = 0; tokens.length < 30;) {
        const head = await passes.run([{ row, first, tokens: tokens.length - first, mode: 'sample', pages: [1, 0] }]);
        first = tokens.length;
        const chances = softmax(referenceLogits(model, tokens).at(-1) ?? new Float64Array());
        const ranked = [...chances.keys()].sort((a, b) => (chances[b] ?? 0) - (chances[a] ?? 0));
        const token = head.tokens[0] ?? -1;
        // The margins of this model are wide enough for an exact comparison; if that changes, this says so.
        expect((chances[ranked[0] ?? 0] ?? 0) / (chances[ranked[1] ?? 0] ?? 1)).toBeGreaterThan(1.0001);
        expect(token).toBe(ranked[0]);
        expect([...head.topTokens]).toEqual(ranked.slice(0, 2));
        expect(Math.abs((head.logprobs[0] ?? NaN) - Math.log(chances[token] ?? 0))).toBeLessThan(1e-4);
        tokens.push(token);
      }
    });
  });
});

test('rows in one batch get what they get alone', async () => {
  const tokensOf = (seed: number): Int32Array =>
    Int32Array.from({ length: 4 + seed }, (_, i) => (i * 7 + seed * 13) % 61);
  const sampled = { ...greedyRow, temperature: 0.9, topP: 0.95, logprobs: 0 };
  await withRuntime({}, async (runtime, passes) => {
    const together = [0, 1, 2].map((seed) =>
      runtime.createRow({ ...sampled, tokens: tokensOf(seed), capacityTokens: 20, seed }),
    );
    const head = await passes.run(
      together.map((row, seed) => ({ row, first: 0, tokens: 4 + seed, mode: 'sample', pages: [seed] })),
    );
    for (const seed of [0, 1, 2]) {
      const row = runtime.createRow({ ...sampled, tokens: tokensOf(seed), capacityTokens: 20, seed });
      const alone = await passes.run([{ row, first: 0, tokens: 4 + seed, mode: 'sample', pages: [9] }]);
      expect(alone.tokens[0]).toBe(head.tokens[seed]);
      expect(alone.logprobs[0]).toBe(head.logprobs[seed]);
    }
  });
});

test('times of tasks are seconds on the clock of performance.now()', async () => {
  await withRuntime({}, async (runtime, passes) => {
    const row = runtime.createRow({ ...greedyRow, capacityTokens: 2 });
    const before = performance.now() / 1000;
    await passes.run([{ row, first: 0, tokens: 1, mode: 'sample', pages: [0] }]);
    const after = performance.now() / 1000;
    const events = passes.seen.flatMap(({ events }) => [...events]);
    // performance.now() is read a moment before or after the monotonic clock when the addon is loaded.
    const skew = 1e-3;
    let last = before - skew;
    for (let i = 0; i < events.length; i += 4) {
      const [start = NaN, end = NaN] = events.slice(i + 1, i + 3);
      expect(start).toBeGreaterThanOrEqual(last);
      expect(end).toBeGreaterThanOrEqual(start);
      last = end;
    }
    expect(last).toBeLessThanOrEqual(after + skew);
  });
});
