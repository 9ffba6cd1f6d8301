import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { engineRing } from '../support/engineRing.js';
import {
  defaultPipeline, diagonalBlock, Engine, rowByRow, serialPipeline, zigZagBlock,
  type EngineOptions, type FollowOptions, type Row, type RowResult, type RunOptions,
} from '../../src/index.js';

const model = (name: string): string => fileURLToPath(new URL(`../fixtures/models/${name}`, import.meta.url));
// Prompts of one token to more than a square has, answers of unequal lengths, greedy and sampled, more rows than places.
const rows: Row[] = Array.from({ length: 14 }, (_, i) => ({
  id: i, tokens: Array.from({ length: 1 + ((i * 5) % 37) }, (__, j) => (i * 31 + j * 17 + 3) % 250), maxNewTokens: 1 + ((i * 3) % 7),
  ...(i % 3 === 0 && { temperature: 0.8, seed: i, repetitionPenalty: 1.2 }),
}));
let disk: string;
beforeAll(() => {
  disk = mkdtempSync(join(tmpdir(), 'spillway-stages-'));
});
afterAll(() => {
  rmSync(disk, { recursive: true });
});

const OPENED = { batchSize: 2, tokensPerSquare: 12, threads: 2 } as const;

async function whole(options: EngineOptions, run: RunOptions = {}): Promise<RowResult[]> {
  await using engine = await Engine.open({ ...OPENED, disk, ...options });
  return await collect(engine.generate(rows, { logprobs: 2, ...run }));
}

async function inRing(counts: readonly number[], options: EngineOptions, run: RunOptions = {}, follow: FollowOptions = {}): Promise<RowResult[]> {
  await using ring = await engineRing(counts, { ...OPENED, disk, ...options });
  const [first, ...later] = ring.engines.map((engine, index) => ({ engine, index }));
  const peers = ring.connect();
  const following = later.map(({ engine, index }) => engine.follow(at(peers, index), follow));
  const results = first ? collect(first.engine.generate(rows, { logprobs: 2, ...run, peers: at(peers, 0) })) : [];
  await Promise.all([results, ...following]);
  return await results;
}

function at<T>(list: readonly T[], index: number): T {
  const found = list[index];
  if (found === undefined) throw new RangeError(`${index} of ${list.length}`);
  return found;
}

async function collect(results: AsyncIterable<RowResult>): Promise<RowResult[]> {
  const all: RowResult[] = [];
  for await (const row of results) all.push(row);
  return all;
}

const SCHEDULES = [rowByRow(), zigZagBlock(), diagonalBlock()];

describe.each([
  ['llama-Q4_1.gguf', [[1, 1]]],
  ['llama-tied-biased', [[1, 1]]],
  ['opt-post-projected', [[1, 1]]],
  ['falcon-rw', [[1, 1]]],
  ['mixtral', [[1, 1]]],
  ['qwen2', [[1, 2], [1, 1, 1]]],
  ['gemma3', [[3, 1], [1, 2, 1], [1, 1, 1, 1]]],
] as const)('%s, its layers divided over engines', (name, divisions) => {
  let reference: RowResult[];
  beforeAll(async () => {
    reference = await whole({ model: model(name) });
    expect(reference.every(({ error }) => error === undefined)).toBe(true);
  });

  test.each(divisions.map((counts) => [counts] as const))('%j: bitwise the same under every schedule and both pipelines', async (counts) => {
    for (const schedule of SCHEDULES) {
      for (const pipeline of [defaultPipeline, serialPipeline]) {
        await expect(inRing(counts, { model: model(name), batches: 2 }, { schedule, pipeline }, { pipeline })).resolves.toEqual(reference);
      }
    }
  });
});
