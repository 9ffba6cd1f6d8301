import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import fc from 'fast-check';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  Engine,
  InterruptedError,
  MemoryBudgetError,
  ModelFileError,
  UsageError,
  type EngineOptions,
  type Row,
  type RowResult,
  type RunOptions,
  type RunStats,
  type TraceEvent,
} from '../../src/index.js';
import {
  defaultPipeline,
  maxInFlight,
  overlap,
  serialPipeline,
  type Stage,
  type StageContext,
} from '../../src/api/operators.js';
import { diagonalBlock, rowByRow, zigZagBlock } from '../../src/api/schedules.js';
import type { NativeRuntime, RuntimeBytes } from '../../src/bindings/Addon.js';
import { loadAddon } from '../../src/bindings/loadAddon.js';
import type { DecoderSpec } from '../../src/model/DecoderSpec.js';
import { boundsOfBlocksRead } from '../../src/plan/model/chosenValues.js';
import { resultOf, runCli, startCli, type CliResult } from '../cli/support.js';
import { collect } from './support.js';
import { tries } from '../support/tries.js';

const model = (name: string): string => fileURLToPath(new URL(`../fixtures/models/${name}`, import.meta.url));
/** Rows of up to 127 tokens: several pages of 32. Some sample, some get their tokens in one pass. */
const rows: Row[] = Array.from({ length: 14 }, (_, i) => ({
  id: i,
  tokens: Array.from({ length: 1 + ((i * 67) % 97) }, (__, j) => (i * 31 + j * 17 + 3) % 250),
  maxNewTokens: 1 + ((i * 11) % 31),
  ...(i % 3 === 1 && { temperature: 0.8, topP: 0.9, seed: i }),
}));
/** No more than two reads and one write of the disk at once. */
const bounded = (run: StageContext): Stage =>
  overlap(
    maxInFlight(run, { queue: 'disk-read', tasks: 2, bytes: '64KiB' }),
    maxInFlight(run, { queue: 'disk-write', tasks: 1 }),
    defaultPipeline(run),
  );
const ALL = { cpu: 0, disk: 1 };
/** Ways to keep and to look at the cache that change results. */
const CACHES = [
  { compressCache: 'none' },
  { compressCache: '8bit' },
  { compressCache: '4bit' },
  { compressCache: 'none', sparseAttention: 0.3 },
  { compressCache: '8bit', sparseAttention: 0.1 },
  { compressCache: '4bit', sparseAttention: 0.05 },
] as const satisfies readonly Partial<EngineOptions>[];
/** The whole lines of an output. */
const linesOf = (text: string): string[] => text.split('\n').slice(0, -1);
let disk: string;
beforeAll(() => {
  disk = mkdtempSync(join(tmpdir(), 'spillway-spill-'));
});
afterAll(() => {
  rmSync(disk, { recursive: true });
});
/** What lies in the folder beside repacked models, which are meant to stay. */
const leftovers = (): string[] => readdirSync(disk).filter((file) => !file.endsWith('.weights'));

async function generateOn(engine: Engine, run: RunOptions = {}): Promise<RowResult[]> {
  const results: RowResult[] = [];
  for await (const row of engine.generate(rows, { logprobs: 1, ...run })) results.push(row);
  return results;
}

async function generate(options: EngineOptions, run: RunOptions = {}): Promise<RowResult[]> {
  await using engine = await Engine.open({ batchSize: 4, tokensPerSquare: 24, disk, ...options });
  return await generateOn(engine, run);
}

const onDisk = (share: number): { cpu: number; disk: number } => ({ cpu: 1 - share, disk: share });

const MODELS = ['gemma3-mixed.gguf', 'mixtral', 'falcon-rw', 'llama-Q4_1.gguf', 'gpt-neox'];
describe.each(MODELS.slice(0, tries(2, MODELS.length)))('%s with its cache and hidden states on disk', (name) => {
  const references = new Map<object, RowResult[]>();
  beforeAll(async () => {
    for (const cached of CACHES) references.set(cached, await generate({ model: model(name), ...cached }));
    const reference = references.get(CACHES[0]) ?? [];
    expect(reference.filter(({ usage }) => usage.promptTokens + usage.completionTokens > 96).length).toBeGreaterThan(2);
  });

  test('bitwise the same whatever lives where, under every schedule, in any chunks, with and without overlap', async () => {
    const share = fc.constantFrom(0, 0.2, 0.5, 0.8, 1);
    const setup = fc.record({
      weights: share,
      cache: share,
      activations: share,
      cached: fc.constantFrom(...CACHES),
      batchSize: fc.integer({ min: 1, max: 9 }),
      batches: fc.integer({ min: 1, max: 3 }),
      extra: fc.integer({ min: 0, max: 60 }),
      threads: fc.integer({ min: 1, max: 3 }),
      window: fc.integer({ min: 1, max: 20 }),
      schedule: fc.constantFrom(rowByRow(), zigZagBlock(), diagonalBlock()),
      pipeline: fc.constantFrom(defaultPipeline, serialPipeline, bounded),
    });
    await fc.assert(
      fc.asyncProperty(
        setup,
        async ({
          weights,
          cache,
          activations,
          cached,
          batchSize,
          batches,
          extra,
          threads,
          window,
          schedule,
          pipeline,
        }) => {
          const options = {
            weights: onDisk(weights),
            cache: onDisk(cache),
            activations: onDisk(activations),
            ...cached,
            batchSize,
            batches,
            threads,
            tokensPerSquare: batchSize + extra,
          };
          await expect(generate({ model: model(name), ...options }, { window, schedule, pipeline })).resolves.toEqual(
            references.get(cached),
          );
        },
      ),
      {
        numRuns: tries(4, 16),
        examples: [
          [
            {
              weights: 1,
              cache: 1,
              activations: 1,
              cached: CACHES[3],
              batchSize: 4,
              batches: 2,
              extra: 20,
              threads: 2,
              window: 8,
              schedule: diagonalBlock(),
              pipeline: defaultPipeline,
            },
          ],
        ],
      },
    );
    expect(leftovers()).toEqual([]);
  });
});

describe('a cache on disk', () => {
  const options: EngineOptions = {
    model: model('llama-Q4_1.gguf'),
    batchSize: 4,
    tokensPerSquare: 24,
    weights: ALL,
    cache: ALL,
    activations: ALL,
  };
  const open = (more: Partial<EngineOptions> = {}): Promise<Engine> => Engine.open({ ...options, disk, ...more });

  test('each complete page is written once and read in every later pass, and the stats say so', async () => {
    let stats: RunStats | undefined;
    const trace: TraceEvent[] = [];
    await using engine = await open({ batchSize: 1 });
    const row = { tokens: Array.from({ length: 80 }, (_, i) => i), maxNewTokens: 40 };
    for await (const result of engine.generate([row], {
      ignoreEos: true,
      onStats: (each) => (stats = each),
      onTrace: (event) => trace.push(event),
    }))
      expect(result.tokens).toHaveLength(40);
    const { layers } = engine.source.decoder;
    // 119 positions in pages of 32: four pages, the last in memory. Passes of 24 tokens, then of one.
    const ends = [24, 48, 72, 80, ...Array.from({ length: 39 }, (_, i) => 81 + i)];
    const complete = (end: number): number => Math.floor(end / 32);
    const read = ends.reduce((sum, _, pass) => sum + complete(ends[pass - 1] ?? 0), 0) * layers;
    const written = 3 * layers;
    const slot = (stats?.bytes.cache['cpu→disk'] ?? 0) / written;
    expect(slot % 4096).toBe(0);
    expect(slot).toBeGreaterThan(0);
    expect(stats?.bytes.cache['disk→cpu']).toBe(read * slot);
    expect(stats?.memory['disk']?.peakBytes).toBeGreaterThan(0);
    expect(stats?.policy).toMatchObject({ cache: { cpu: 0, disk: 1 }, activations: { cpu: 0, disk: 1 } });
    for (const name of ['load_cache', 'store_cache', 'load_activation', 'store_activation', 'load_weight'])
      expect(trace.some((event) => event.name.startsWith(`${name} `))).toBe(true);
  });

  test.each([
    { schedule: rowByRow(), hiddenShare: 1 },
    { schedule: zigZagBlock(), hiddenShare: 1 },
    { schedule: diagonalBlock(), hiddenShare: 1 },
    { schedule: zigZagBlock(), hiddenShare: 0.25 },
    { schedule: diagonalBlock(), hiddenShare: 0.5 },
  ])(
    'what $schedule.name moves is what theory says: weights once a pass, each page read once a pass and written once, $hiddenShare of hidden states between layers',
    async ({ schedule, hiddenShare }) => {
      const [batches, batchSize, prompt, answer] = [3, 4, 40, 30];
      let stats: RunStats | undefined;
      const passes = new Set<unknown>();
      const squaresDone = new Map<string, number>();
      const opened = jest.spyOn(loadAddon(), 'openRuntime');
      await using engine = await open({
        batches,
        batchSize,
        tokensPerSquare: batchSize * prompt,
        activations: onDisk(hiddenShare),
      });
      const runtime = opened.mock.results[0]?.value as NativeRuntime;
      opened.mockRestore();
      const before = runtime.moved;
      const uniform = Array.from({ length: batches * batchSize }, (_, row) => ({
        tokens: Array.from({ length: prompt }, (__, i) => (row * 13 + i * 7) % 250),
        maxNewTokens: answer,
      }));
      for await (const row of engine.generate(uniform, {
        schedule,
        ignoreEos: true,
        onStats: (each) => (stats = each),
        onTrace: ({ name, args }) => {
          if (!name.startsWith('compute ')) return;
          passes.add(args['pass']);
          squaresDone.set(
            `${String(args['pass'])} ${String(args['layer'])} ${String(args['slot'])}`,
            (args['rows'] as [number, number, number][]).reduce((sum, [, , tokens]) => sum + tokens, 0),
          );
        },
      }))
        expect(row.tokens).toHaveLength(answer);
      const { layers, hiddenSize } = engine.source.decoder;
      // 69 positions in three pages, of which the first two are on disk: complete after 32 and 64 positions.
      const ends = [prompt, ...Array.from({ length: answer - 1 }, (_, i) => prompt + 1 + i)];
      const reads = ends.reduce((sum, _, pass) => sum + Math.floor((ends[pass - 1] ?? 0) / 32), 0);
      const slot = (stats?.bytes.cache['cpu→disk'] ?? 0) / (2 * layers * uniform.length);
      expect(slot % 4096).toBe(0);
      expect(stats?.bytes.cache['disk→cpu']).toBe(reads * layers * uniform.length * slot);
      // Row by row a pass is of one batch, otherwise of the whole block. Rows that come late have passes more.
      expect(passes.size).toBeGreaterThanOrEqual(schedule.name === 'row' ? batches * answer : answer);
      const perPass = (stats?.bytes.weights['disk→cpu'] ?? 0) / passes.size;
      expect(perPass).toBe(Math.round(perPass));
      const hidden = [...squaresDone].reduce(
        (sum, [key, tokens]) =>
          sum + (key.split(' ')[1] === '0' ? 0 : Math.ceil((hiddenShare * tokens * hiddenSize * 4) / 4096) * 4096),
        0,
      );
      expect(hidden).toBeGreaterThan(0);
      expect(stats?.bytes.activations).toEqual({ 'disk→cpu': hidden, 'cpu→disk': hidden });
      const read = (stats?.bytes.weights['disk→cpu'] ?? 0) + (stats?.bytes.cache['disk→cpu'] ?? 0) + hidden;
      expect(runtime.moved.read - before.read).toBe(read);
      expect(runtime.moved.written - before.written).toBe((stats?.bytes.cache['cpu→disk'] ?? 0) + hidden);
    },
  );

  test('of sparse attention rows that decode read keys and chosen values, and the stats say how much', async () => {
    // One batch of all rows: which rows share one, and with it what is read, is not left to the pace of threads.
    const long: Row[] = Array.from({ length: 4 }, (_, i) => ({
      tokens: Array.from({ length: 90 + i }, (__, j) => (i * 31 + j * 17 + 3) % 250),
      maxNewTokens: 100,
    }));
    const batch = { batchSize: long.length, batches: 1 };
    interface Ran {
      readonly tokens: unknown;
      readonly read: number;
      readonly moved: number;
      readonly bytes: RuntimeBytes;
      readonly decoder: DecoderSpec;
    }
    const run = async (more: Partial<EngineOptions>): Promise<Ran> => {
      const opened = jest.spyOn(loadAddon(), 'openRuntime');
      await using engine = await Engine.open({
        ...options,
        ...batch,
        weights: onDisk(0),
        activations: onDisk(0),
        disk,
        ...more,
      });
      const runtime = opened.mock.results[0]?.value as NativeRuntime;
      opened.mockRestore();
      let stats: RunStats | undefined;
      let traced = 0;
      const results = await collect(
        engine.generate(long, {
          ignoreEos: true,
          onStats: (each) => (stats = each),
          onTrace: ({ name, args }) => (traced += name.startsWith('load_cache') ? Number(args['bytes']) : 0),
        }),
      );
      const read = stats?.bytes.cache['disk→cpu'] ?? 0;
      expect(traced).toBe(read);
      expect(stats?.queues['disk-read']?.bytes ?? 0).toBe(read);
      return {
        tokens: results.map(({ tokens }) => tokens),
        read,
        moved: runtime.moved.read,
        bytes: runtime.bytes,
        decoder: engine.source.decoder,
      };
    };
    const whole = await run({});
    expect(whole.moved).toBe(whole.read);
    for (const sparseAttention of [0.05, 0.5]) {
      const sparse = await run({ sparseAttention });
      expect(sparse.moved).toBe(sparse.read);
      const { tokens } = await run({ sparseAttention, cache: onDisk(0) });
      expect(sparse.tokens).toEqual(tokens);
      // Beside the keys, the closed form's blocks of values.
      const { pageSlot, pageKeys, spillBlock } = sparse.bytes;
      const { layers, heads, kvHeads } = sparse.decoder;
      const blockTokens = (32 * kvHeads * spillBlock) / (pageSlot - pageKeys);
      let [dense, keys, least, most] = [0, 0, 0, 0];
      for (const { tokens: prompt = [], maxNewTokens = 0 } of long)
        for (let at = prompt.length; at < prompt.length + maxNewTokens - 1; at++) {
          const pages = Math.floor(at / 32);
          const positions = { seen: at + 1, onDisk: 32 * pages };
          // What has been read once may be in memory from then on.
          const held = at === prompt.length ? 0 : Infinity;
          const of = { groupHeads: heads / kvHeads, blockTokens, held };
          const blocks = boundsOfBlocksRead(sparseAttention, positions, of);
          dense += layers * pages * pageSlot;
          keys += layers * pages * pageKeys;
          // Blocks may be larger than a head's values, and heads have some in common then.
          least += layers * (blockTokens <= 32 ? kvHeads : 1) * spillBlock * blocks.least;
          most += Math.min(layers * pages * (pageSlot - pageKeys), layers * kvHeads * spillBlock * blocks.most);
        }
      const values = sparse.read - (whole.read - dense) - keys;
      expect(values).toBeGreaterThanOrEqual(least);
      expect(values).toBeLessThanOrEqual(most);
      if (sparseAttention === 0.5) expect(least).toBeGreaterThan(0);
      else expect(sparse.read).toBeLessThan(0.95 * whole.read);
    }
  });

  test('runs that share an engine do not spoil each other', async () => {
    const reference = await generate({ model: options.model });
    await using engine = await open({ batchSize: 3, batches: 2 });
    for (const results of await Promise.all([generateOn(engine), generateOn(engine), generateOn(engine)]))
      expect(results).toEqual(reference);
  });

  test('whoever leaves early, at any moment, leaves nothing behind, and the engine goes on', async () => {
    const reference = await generate({ model: options.model });
    await using engine = await open();
    let tasks = 0;
    await generateOn(engine, { onTrace: () => tasks++ });
    for (const part of [0, 0.01, 0.1, 0.3, 0.6, 0.9]) {
      const controller = new AbortController();
      let left = Math.floor(tasks * part);
      const stopped = generateOn(engine, {
        signal: controller.signal,
        onTrace: () => left-- <= 0 && controller.abort(),
      });
      await expect(stopped).rejects.toThrow(InterruptedError);
      const taken: RowResult[] = [];
      for await (const row of engine.generate(rows, { logprobs: 1 })) if (taken.push(row) > 8 * part) break;
      expect(taken).toEqual(reference.slice(0, taken.length));
    }
    await expect(generateOn(engine)).resolves.toEqual(reference);
    await engine.close();
    expect(leftovers()).toEqual([]);
  });

  test('an engine that is closed in mid-run ends it, and nothing is left', async () => {
    const engine = await open();
    const results = generateOn(engine, { onTrace: ({ ph }) => ph === 'X' && void engine.close() });
    await expect(results).rejects.toThrow(InterruptedError);
    await engine.close();
    expect(leftovers()).toEqual([]);
  });

  test('shares that make no sense, and too little disk, are refused', async () => {
    for (const shares of [
      { cpu: 0.5, disk: 0.6 },
      { cpu: -1, disk: 2 },
      { cpu: NaN, disk: 0 },
    ]) {
      await expect(open({ cache: shares })).rejects.toThrow(UsageError);
      await expect(open({ activations: shares })).rejects.toThrow(UsageError);
    }
    await expect(open({ weights: { cpu: 1, disk: 0 }, diskMemory: 1000 })).rejects.toThrow(MemoryBudgetError);
    await expect(open({ disk: join(model('llama-Q4_1.gguf'), 'no-folder') })).rejects.toThrow(ModelFileError);
  });
});

describe('a disk that fails in mid-run', () => {
  const input = (): string => join(folder, 'rows.jsonl');
  let folder: string;
  let reference: string;
  /** The command line in a process of its own: faults are injected through its environment. */
  const run = (output: string, fault?: string, ...flags: string[]): Promise<CliResult> =>
    runCli(
      [...args(join(folder, output), input()), ...flags],
      '',
      fault === undefined ? {} : { SPILLWAY_DISK_FAULTS: fault },
    );
  const args = (output: string, from: string): string[] => [
    'generate',
    '--model',
    model('llama-Q4_1.gguf'),
    '--input',
    from,
    '--output',
    output,
    '--policy',
    join(folder, 'policy.json'),
    '--disk',
    folder,
    '--logprobs',
    '1',
    '--progress',
    'off',
  ];
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'spillway-faults-'));
    writeFileSync(input(), rows.map((row) => JSON.stringify(row)).join('\n'));
    writeFileSync(
      join(folder, 'policy.json'),
      JSON.stringify({
        schedule: 'diagonal',
        batchSize: 4,
        tokensPerSquare: 24,
        weights: ALL,
        cache: ALL,
        activations: ALL,
      }),
    );
    expect((await run('reference.jsonl')).code).toBe(0);
    reference = readFileSync(join(folder, 'reference.jsonl'), 'utf8');
  });
  afterAll(() => {
    rmSync(folder, { recursive: true });
  });

  test.each(['SIGINT', 'SIGKILL'] as const)(
    '%s at random moments: nothing is left, and the job goes on to the same output',
    async (signal) => {
      const many = join(folder, `${signal}-in.jsonl`);
      let output = join(folder, `${signal}.jsonl`);
      writeFileSync(
        many,
        Array.from({ length: 12 }, (_, copy) =>
          rows.map((row, i) => JSON.stringify({ ...row, id: copy * rows.length + i })),
        )
          .flat()
          .join('\n'),
      );
      const whole = join(folder, `${signal}-whole.jsonl`);
      const began = performance.now();
      expect((await runCli(args(whole, many))).code).toBe(0);
      const wholeMilliseconds = performance.now() - began;
      const expected = readFileSync(whole, 'utf8');
      const resume = (): string[] => (existsSync(output) ? ['--resume'] : []);
      let kills = 0;
      for (let attempt = 0; attempt < 8 && kills < tries(2, 8); attempt++) {
        const child = startCli([...args(output, many), ...resume()]);
        const ended = resultOf(child);
        // While it loads, while prompts are computed, or later; until one was not through, ever earlier.
        await sleep(wholeMilliseconds * (kills === 0 ? 0.5 ** (attempt + 1) : 0.2 + 0.8 * Math.random()));
        child.kill(signal);
        const { code } = await ended;
        if (code === 0 && kills > 0) break;
        if (code === 0) {
          output = join(folder, `${signal}-${String(attempt)}.jsonl`);
          continue;
        }
        kills++;
        // -1: ended by the signal itself, before it was listened to.
        expect(signal === 'SIGINT' ? [130, -1] : [137]).toContain(code);
        expect(readdirSync(folder).filter((file) => file.endsWith('.spill'))).toEqual([]);
        // Some of the lines, each once: what one run had finished ahead of its turn stands before what the next one
        // adds.
        const written = existsSync(output) ? linesOf(readFileSync(output, 'utf8')) : [];
        expect(linesOf(expected).filter((line) => written.includes(line))).toHaveLength(written.length);
      }
      expect(kills).toBeGreaterThan(0);
      expect((await runCli([...args(output, many), ...resume()])).code).toBe(0);
      expect(readFileSync(output, 'utf8')).toBe(expected);
    },
  );

  // Requests are counted from the opening of each file: early ones hit the first loads, late ones the cache of rows
  // that are well on their way.
  test.each([
    'read:3:EIO',
    'read:60:EIO',
    'read:400:EIO',
    'read:25:end',
    'read:300:end',
    'write:1:ENOSPC',
    'write:30:ENOSPC',
    'write:60:EIO',
    'allocate:1:ENOSPC',
  ])(
    'fault %s: one error that names the file, what was finished stands, nothing is left, and the job goes on',
    async (fault) => {
      const output = `${fault.replaceAll(':', '-')}.jsonl`;
      const failed = await run(output, fault);
      expect(failed).toMatchObject({
        code: 2,
        stderr: expect.stringMatching(/error: .*(\.spill|\.weights)/) as unknown,
      });
      const written = existsSync(join(folder, output)) ? linesOf(readFileSync(join(folder, output), 'utf8')) : [];
      expect(linesOf(reference).filter((line) => written.includes(line))).toEqual(written);
      expect(readdirSync(folder).filter((file) => file.endsWith('.spill'))).toEqual([]);
      expect(await run(output, undefined, '--resume')).toMatchObject({ code: 0 });
      expect(readFileSync(join(folder, output), 'utf8')).toBe(reference);
    },
  );
});
