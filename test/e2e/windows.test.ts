import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Engine, type EngineOptions, type Row, type RowResult, type RunOptions } from '../../src/index.js';
import { diagonalBlock, rowByRow, zigZagBlock } from '../../src/api/schedules.js';
import { engineRing } from '../support/engineRing.js';
import { crossed } from '../support/tries.js';
import { at, collect, model } from './support.js';

const CONTEXT = 1024;
const HEAD = Array.from({ length: 150 }, (_, i) => (i * 7 + 1) % 250);
/** Rows many times as long as the windows, of ten tokens and fewer; some begin alike, in the middle of a page. */
const rows: Row[] = Array.from({ length: 10 }, (_, i) => ({
  id: i,
  tokens: [
    ...(i % 2 === 0 ? HEAD.slice(0, i % 4 === 0 ? 150 : 90) : []),
    ...Array.from({ length: 1 + ((i * 97) % 331) }, (__, j) => (i * 31 + j * 17 + 3) % 250),
  ],
  maxNewTokens: 1 + ((i * 29) % 83),
  ...(i % 3 === 1 && { temperature: 0.8, seed: i, repetitionPenalty: 1.1 }),
}));
const OPENED = { batchSize: 3, batches: 2, tokensPerSquare: 48, threads: 2 } as const;

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'spillway-windows-'));
});
afterAll(() => {
  rmSync(folder, { recursive: true });
});

/** A tiny model with a longer context. */
function lengthened(name: string): string {
  const copy = join(folder, name);
  cpSync(model(name), copy, { recursive: true });
  const config = join(copy, 'config.json');
  writeFileSync(config, readFileSync(config, 'utf8').replace(/("max_position_embeddings": )128/, `$1${CONTEXT}`));
  return copy;
}

async function generate(options: EngineOptions, run: RunOptions = {}): Promise<RowResult[]> {
  await using engine = await Engine.open({ ...OPENED, disk: folder, ...options });
  return await collect(engine.generate(rows, { logprobs: 2, ...run }));
}

/** Engines that share a model's layers keep all pages. */
async function withAllPages(options: EngineOptions, counts: readonly number[]): Promise<RowResult[]> {
  await using ring = await engineRing(counts, { ...OPENED, disk: folder, ...options });
  const [first, second] = ring.engines;
  if (!first || !second) throw new Error('a ring of fewer than two engines');
  const peers = ring.connect();
  const results = collect(first.generate(rows, { logprobs: 2, peers: at(peers, 0) }));
  await Promise.all([results, second.follow(at(peers, 1))]);
  return await results;
}

describe.each([
  ['gemma3', [2, 2]],
  ['gemma2', [1, 3]],
  ['gpt-oss', [1, 2]],
  ['mistral', [1, 1]],
] as const)('%s, whose layers see the last tokens alone', (name, counts) => {
  let path: string;
  let reference: RowResult[];
  beforeAll(async () => {
    path = lengthened(name);
    reference = await withAllPages({ model: path }, counts);
    expect(reference.every(({ error }) => error === undefined)).toBe(true);
  });

  test('has bitwise the answers of an engine that keeps all pages, under every schedule, shared or not', async () => {
    for (const [schedule, sharePrefixes] of crossed([rowByRow(), zigZagBlock(), diagonalBlock()], [true, false]))
      expect(await generate({ model: path }, { schedule, sharePrefixes })).toEqual(reference);
  });

  test('also with its cache on disk, all or half of it', async () => {
    for (const share of [1, 0.5])
      expect(await generate({ model: path, cache: { cpu: 1 - share, disk: share } })).toEqual(reference);
  });

  test('answers as before after runs that were broken off', async () => {
    await using engine = await Engine.open({ ...OPENED, model: path, disk: folder });
    for await (const { id } of engine.generate(rows)) if (id === 2) break;
    const stop = new AbortController();
    const broken = collect(engine.generate(rows, { signal: stop.signal, onProgress: () => stop.abort() }));
    await expect(broken).rejects.toThrow();
    expect(await collect(engine.generate(rows, { logprobs: 2 }))).toEqual(reference);
  });
});
