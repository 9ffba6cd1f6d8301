import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  describePeers,
  Engine,
  PeerError,
  UsageError,
  type ActivationLink,
  type EngineOptions,
  type FollowOptions,
  type Row,
  type RowResult,
  type RunOptions,
  type TraceEvent,
} from '../../src/index.js';
import { exchangeLengths, ringExchangeNumbers } from '../../src/engine/grid/rowExchange.js';
import { diagonalBlock, rowByRow, zigZagBlock } from '../../src/api/schedules.js';
import { shareRing, type EngineRing } from '../support/engineRing.js';
import { shareSockets } from '../support/socketRing.js';
import { at, collect, model } from './support.js';

// Prompts of one token to several squares' and pages', answers of unequal lengths, more rows than places.
const rows: Row[] = Array.from({ length: 13 }, (_, i) => ({
  id: i,
  tokens: Array.from({ length: 1 + ((i * 11) % 47) }, (__, j) => (i * 31 + j * 17 + 3) % 250),
  maxNewTokens: 1 + ((i * 3) % 7),
  ...(i % 3 === 0 && { temperature: 0.8, seed: i, repetitionPenalty: 1.2 }),
}));
let disk: string;
beforeAll(() => {
  disk = mkdtempSync(join(tmpdir(), 'spillway-rows-'));
});
afterAll(() => {
  rmSync(disk, { recursive: true });
});

const OPENED = { batchSize: 4, batches: 2, tokensPerSquare: 12, threads: 1 } as const;

interface RunInRing extends RunOptions {
  readonly rows?: readonly Row[];
  readonly follow?: FollowOptions;
  readonly wrap?: (link: ActivationLink, from: number) => ActivationLink;
}

async function run(
  ring: EngineRing,
  { rows: given = rows, follow, wrap, ...options }: RunInRing = {},
): Promise<RowResult[]> {
  const peers = ring.connect(wrap);
  const following = ring.engines.map((engine, index) =>
    index === 0 ? Promise.resolve() : engine.follow(at(peers, index), follow),
  );
  const results = collect(at(ring.engines, 0).generate(given, { logprobs: 2, ...options, peers: at(peers, 0) }));
  const ended = await Promise.allSettled([results, ...following]);
  for (const end of ended) if (end.status === 'rejected') throw end.reason;
  return await results;
}

async function shared(
  of: number,
  attention: 'heads' | 'rows',
  options: EngineOptions,
  how: RunInRing = {},
): Promise<RowResult[]> {
  await using ring = await shareRing(of, { ...OPENED, disk, ...options }, attention);
  return await run(ring, how);
}

describe.each([
  // One head of keys and values; as many as engines and fewer; sliding windows; sinks; slopes of heads; norms of heads.
  ['falcon-multi-query', [2, 3, 4]],
  ['llama', [2, 3, 4]],
  ['llama-Q8_0.gguf', [2]],
  ['gemma2', [2]],
  ['gpt-oss', [2, 3]],
  ['falcon-rw', [2, 3, 4, 5]],
  ['qwen3', [2]],
  ['mixtral', [2]],
  ['gpt-neox', [2]],
  ['opt-post-projected', [4]],
] as const)('%s', (name, numbers) => {
  test.each(numbers.map((of) => [of] as const))(
    '%i engines that keep some rows each give the bits of those that keep heads',
    async (of) => {
      const options = { model: model(name) };
      const expected = await shared(of, 'heads', options);
      expect(expected.every(({ error }) => error === undefined)).toBe(true);
      expect(await shared(of, 'rows', options)).toEqual(expected);
    },
  );
});
