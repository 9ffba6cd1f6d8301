import './support/emulatedAddon.js';
import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { loadAddon } from '../../src/bindings/loadAddon.js';
import {
  Engine,
  resultIdentityKey,
  type EngineOptions,
  type KeptAnswer,
  type RowResult,
  type RunOptions,
} from '../../src/index.js';
import { model } from '../e2e/support.js';
import { temporaryFolder } from '../jobs/support/files.js';
import { schedules } from '../support/arbitraryRuns.js';
import { tries } from '../support/tries.js';

const folder = temporaryFolder()('disk');

const open = (options: Partial<EngineOptions>): Promise<Engine> =>
  Engine.open({
    policy: 'default',
    disk: folder,
    gpuMemory: '16MiB',
    batchSize: 3,
    tokensPerSquare: 64,
    ...options,
    model: model(options.model ?? 'llama-Q4_1.gguf'),
  });

/** Of one to four pages; two begin alike. */
const ROWS = (
  [
    [20, 4],
    [70, 8],
    [85, 8],
    [60, 40],
    [64, 3],
  ] as const
).map(([prompt, maxNewTokens], id) => {
  const tokenOf = (at: number): number => (id > 1 && at < 40 ? at * 13 : id * 31 + at * 17) % 250;
  return { id, tokens: Array.from({ length: prompt }, (_, at) => tokenOf(at)), maxNewTokens };
});

/** Of those that fit: what is refused for want of memory is no answer. */
async function answers(engine: Engine, run: RunOptions = {}): Promise<readonly RowResult[]> {
  const results: RowResult[] = [];
  for await (const row of engine.generate(ROWS, { logprobs: 1, ignoreEos: true, ...run })) results.push(row);
  expect(results.filter(({ error }) => error && error.code !== 'memory')).toEqual([]);
  return results.filter(({ error }) => !error);
}

const ON_DISK = { gpu: 0.5, cpu: 0, disk: 0.5 };

test.each<[string, Partial<EngineOptions>, Partial<EngineOptions>]>([
  ['how much of the cache is on disk', { cache: { gpu: 0.5, cpu: 0.5, disk: 0 } }, { cache: ON_DISK }],
  ['how many pages of a row are there at most', { cache: ON_DISK, rowTokens: 64 }, { cache: ON_DISK, rowTokens: 128 }],
])('%s decides results: no answer of another engine is taken', async (_, one, other) => {
  const store = new Map<string, KeptAnswer>();
  const reuse = {
    get: (key: string) => store.get(key),
    put: (key: string, answer: KeptAnswer) => void store.set(key, answer),
  };
  await using first = await open(one);
  const given = await answers(first, { reuse });
  expect(given).toHaveLength(ROWS.length);
  await using second = await open(other);
  const expected = await answers(second);
  expect(expected).not.toEqual(given);
  expect(resultIdentityKey(second.resultIdentity)).not.toBe(resultIdentityKey(first.resultIdentity));
  expect(await answers(second, { reuse })).toEqual(expected);
});

/** By what is drawn of them results may differ. */
const deciding: fc.Arbitrary<Partial<EngineOptions>> = fc.record({
  model: fc.constantFrom('llama-Q4_1.gguf', 'gemma3-mixed.gguf'),
  cache: fc.constantFrom(
    ...[
      [0.5, 0.5],
      [0.5, 0.25],
      [0.3, 0.7],
      [0, 0.5],
      [1, 0],
    ].map(([gpu = 0, disk = 0]) => ({ gpu, cpu: 1 - gpu - disk, disk })),
    { gpu: 0.5, cpu: 0.5, disk: 0 },
  ),
  compressCache: fc.constantFrom('none', '8bit'),
  sparseAttention: fc.constantFrom(1, 0.4),
});
/**
 * And by what is drawn of these they may not, unless they are told apart: `rowTokens` decides how many pages are on
 * disk.
 */
const others: fc.Arbitrary<Partial<EngineOptions>> = fc.record({
  rowTokens: fc.constantFrom(64, 96, 128),
  batchSize: fc.integer({ min: 1, max: 5 }),
  batches: fc.integer({ min: 1, max: 2 }),
  tokensPerSquare: fc.integer({ min: 5, max: 96 }),
  threads: fc.integer({ min: 1, max: 3 }),
  instructionSet: fc.constantFrom(...loadAddon().machine().instructionSets),
  gpuMemory: fc.constantFrom('16MiB', '24MiB'),
  weights: fc.constantFrom({ gpu: 1, cpu: 0, disk: 0 }, { gpu: 0.3, cpu: 0.3, disk: 0.4 }),
  activations: fc.constantFrom({ gpu: 1, cpu: 0, disk: 0 }, { gpu: 0, cpu: 0.5, disk: 0.5 }),
});

test('engines of one identity give the same bits, whatever else they are told', async () => {
  const runs = fc.record({ others, schedule: schedules, sharePrefixes: fc.boolean() });
  await fc.assert(
    fc.asyncProperty(deciding, fc.array(runs, { minLength: 3, maxLength: 3 }), async (decided, drawn) => {
      const known = new Map<string, unknown>();
      for (const { others: more, ...run } of drawn) {
        await using engine = await open({ ...decided, ...more });
        for (const answer of await answers(engine, run)) {
          const key = `${resultIdentityKey(engine.resultIdentity)} ${answer.id}`;
          if (known.has(key)) expect(answer).toEqual(known.get(key));
          known.set(key, answer);
        }
      }
    }),
    { numRuns: tries(2, 4) },
  );
});
