import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import { Engine, type EngineOptions, type RowResult, type RowSettings, type RunOptions } from '../../src/index.js';

/** A tiny model of test/fixtures/models. */
export const model = (name: string): string => fileURLToPath(new URL(`../fixtures/models/${name}`, import.meta.url));

/** Rows of unequal prompts and answers. */
export const unequalRows: readonly (RowSettings & { readonly tokens: readonly number[] })[] = Array.from(
  { length: 20 },
  (_, i) => ({
    id: i,
    tokens: Array.from({ length: 1 + ((i * 5) % 23) }, (__, j) => (i * 31 + j * 17 + 3) % 250),
    maxNewTokens: 1 + ((i * 3) % 7),
  }),
);

/** What an engine of small batches and squares makes of the unequal rows. */
export async function generateUnequal(options: EngineOptions, run: RunOptions = {}): Promise<RowResult[]> {
  await using engine = await Engine.open({ batchSize: 4, tokensPerSquare: 16, ...options });
  const results: RowResult[] = [];
  for await (const row of engine.generate(unequalRows, { logprobs: 1, ...run })) results.push(row);
  return results;
}

/** The sizes of an engine's block. */
export const blocks = fc.record({
  batchSize: fc.integer({ min: 1, max: 6 }),
  batches: fc.integer({ min: 1, max: 2 }),
  tokensPerSquare: fc.integer({ min: 6, max: 64 }),
});

export function at<T>(list: readonly T[], index: number): T {
  const found = list[index];
  if (found === undefined) throw new RangeError(`${index} of ${list.length}`);
  return found;
}

export async function collect(results: AsyncIterable<RowResult>): Promise<RowResult[]> {
  const all: RowResult[] = [];
  for await (const row of results) all.push(row);
  return all;
}
