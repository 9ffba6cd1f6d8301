import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import { Engine, type EngineOptions, type Row, type RowResult, type RunOptions } from '../../src/index.js';

/** A tiny model of test/fixtures/models. */
export const model = (name: string): string => fileURLToPath(new URL(`../fixtures/models/${name}`, import.meta.url));

/** Rows of unequal prompts and answers. */
export const unequalRows: readonly Row[] = Array.from({ length: 20 }, (_, i) => ({
  id: i, tokens: Array.from({ length: 1 + ((i * 5) % 23) }, (__, j) => (i * 31 + j * 17 + 3) % 250), maxNewTokens: 1 + ((i * 3) % 7),
}));

/** What an engine of small batches and squares makes of the unequal rows. */
export async function generateUnequal(options: EngineOptions, run: RunOptions = {}): Promise<RowResult[]> {
  await using engine = await Engine.open({ batchSize: 4, tokensPerSquare: 16, ...options });
  const results: RowResult[] = [];
  for await (const row of engine.generate(unequalRows, { logprobs: 1, ...run })) results.push(row);
  return results;
}

/** Rows of a tree of prompts: a system's, a document's and a question's tokens. */
export const treesOfRows = fc.array(
  fc.record({
    system: fc.nat(1), document: fc.nat(2), question: fc.nat(9),
    systemTokens: fc.constantFrom(0, 20, 32, 45), documentTokens: fc.constantFrom(0, 12, 19),
    new: fc.integer({ min: 1, max: 6 }), sampled: fc.boolean(),
  }),
  { minLength: 2, maxLength: 14 },
).map((picks) => picks.map((pick, id): Row => ({
  id,
  tokens: [
    ...Array.from({ length: pick.systemTokens }, (_, i) => (pick.system * 91 + i * 17 + 3) % 250),
    ...Array.from({ length: pick.documentTokens }, (_, i) => (pick.document * 57 + i * 29 + 11) % 250),
    ...Array.from({ length: 1 + pick.question }, (_, i) => (pick.question * 31 + i * 7 + 5) % 250),
  ],
  maxNewTokens: pick.new,
  ...(pick.sampled && { temperature: 0.9, seed: id }),
})));

/** The sizes of an engine's block. */
export const blocks = fc.record({
  batchSize: fc.integer({ min: 1, max: 6 }),
  batches: fc.integer({ min: 1, max: 2 }),
  tokensPerSquare: fc.integer({ min: 6, max: 64 }),
});
