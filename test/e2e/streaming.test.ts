import { afterAll, beforeAll, beforeEach, describe, expect, jest, test } from '@jest/globals';
import {
  closeSync,
  existsSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  Engine,
  MemoryBudgetError,
  UsageError,
  type EngineOptions,
  type Row,
  type RowResult,
  type RunOptions,
  type RunStats,
  type TraceEvent,
} from '../../src/index.js';
import { defaultPipeline, serialPipeline } from '../../src/api/operators.js';
import { diagonalBlock, rowByRow, zigZagBlock } from '../../src/api/schedules.js';
import { crossed, inTurn } from '../support/tries.js';
import { generateUnequal, model, unequalRows } from './support.js';

let disk: string;
beforeAll(() => {
  disk = mkdtempSync(join(tmpdir(), 'spillway-streaming-'));
});
afterAll(() => {
  rmSync(disk, { recursive: true });
});

const generate = (options: EngineOptions, run: RunOptions = {}): Promise<RowResult[]> =>
  generateUnequal({ disk, ...options }, run);

const MODELS = [
  'llama-mlp-biased-Q4_0.gguf',
  'gemma2',
  'gemma3-mixed.gguf',
  'mixtral',
  'qwen3-moe-Q4_0.gguf',
  'gpt-oss',
  'gpt-oss-mxfp4',
  'falcon-new',
  'phi3-float8',
];
const SHARES = [0, 0.2, 0.55, 0.9, 1];
const WAYS = crossed([rowByRow(), zigZagBlock(), diagonalBlock()], [defaultPipeline, serialPipeline]);
// By day each model with one of the shares, all of them in all ways.
describe.each(MODELS.map((name, nth) => [name, nth] as const))('%s with weights on disk', (name, nth) => {
  let reference: RowResult[];
  beforeAll(async () => {
    reference = await generate({ model: model(name) });
  });

  test.each([...inTurn(SHARES, nth)])(
    'bitwise the same with a share of %d in memory, under every schedule and both pipelines',
    async (cpu) => {
      for (const [schedule, pipeline] of WAYS)
        await expect(
          generate({ model: model(name), batches: 2, weights: { cpu, disk: 1 - cpu } }, { schedule, pipeline }),
        ).resolves.toEqual(reference);
    },
  );
});

describe('weights on disk', () => {
  test('are read once a pass for the whole block, and the bytes are those of the placement', async () => {
    const trace: TraceEvent[] = [];
    let stats: RunStats | undefined;
    await generate(
      { model: model('llama-Q4_1.gguf'), batches: 2, weights: { cpu: 0.3, disk: 0.7 } },
      { onTrace: (event) => trace.push(event), onStats: (each) => (stats = each) },
    );
    const squares = new Set(
      trace
        .filter(({ name }) => name.startsWith('compute '))
        .map(({ args }) => `${String(args['pass'])} ${String(args['layer'])}`),
    );
    const loads = trace.filter(({ name }) => name.startsWith('load_weight '));
    expect(loads.map(({ args }) => `${String(args['pass'])} ${String(args['layer'])}`).sort()).toEqual(
      [...squares].sort(),
    );
    expect(stats?.queues['disk-read']).toMatchObject({ tasks: loads.length, bytes: stats?.bytes.weights['disk→cpu'] });
  });

  test('rows that come one by one are in one block, whose weights are read once for all of them', async () => {
    await using engine = await Engine.open({
      model: model('llama-Q4_1.gguf'),
      schedule: 'zigzag',
      batchSize: 4,
      batches: 5,
      tokensPerSquare: 64,
      disk,
      weights: { cpu: 0, disk: 1 },
    });
    const source = async function* (): AsyncGenerator<Row> {
      // A block begins when its source pauses, or takes a second: here no time passes, however busy the machine is.
      const clock = jest.spyOn(performance, 'now').mockReturnValue(performance.now());
      try {
        for (let id = 0; id < 18; id++) {
          await new Promise((resolve) => setTimeout(resolve, 2));
          yield { id, tokens: [5, 6, 7 + id] };
        }
      } finally {
        clock.mockRestore();
      }
    };
    const passes = new Set<unknown>();
    const run = { maxNewTokens: 6, ignoreEos: true, onTrace: ({ args }: TraceEvent) => passes.add(args['pass']) };
    for await (const { error } of engine.generate(source(), run)) expect(error).toBeUndefined();
    passes.delete(undefined);
    expect(passes.size).toBe(6);
  });

  test('runs that share an engine do not spoil each other', async () => {
    await using engine = await Engine.open({
      model: model('llama-Q4_1.gguf'),
      batchSize: 2,
      batches: 3,
      tokensPerSquare: 16,
      disk,
      weights: { cpu: 0, disk: 1 },
    });
    const collect = async (): Promise<RowResult[]> => {
      const results: RowResult[] = [];
      for await (const row of engine.generate(unequalRows, { logprobs: 1 })) results.push(row);
      return results;
    };
    const reference = await generate({ model: model('llama-Q4_1.gguf') });
    for (const results of await Promise.all([collect(), collect(), collect()])) expect(results).toEqual(reference);
  });

  test('what onRepack throws is what opening rejects with, and the next one takes it up', async () => {
    const mine = new Error('mine');
    const options: EngineOptions = { model: model('qwen2'), disk, weights: { cpu: 0, disk: 1 } };
    const onRepack = (): void => {
      throw mine;
    };
    await expect(Engine.open({ ...options, onRepack })).rejects.toBe(mine);
    await using engine = await Engine.open(options);
    await expect(engine.perplexity([1, 2, 3], { window: 3 })).resolves.toMatchObject({ tokens: 2 });
  });

  test('a consumer that stops in mid-run leaves nothing but the repacked file', async () => {
    const engine = await Engine.open({
      model: model('llama-Q4_1.gguf'),
      batchSize: 2,
      disk,
      weights: { cpu: 0, disk: 1 },
    });
    for await (const row of engine.generate(unequalRows)) if (row.index === 2) break;
    await engine.close();
    expect(readdirSync(disk).filter((file) => !file.endsWith('.weights'))).toEqual([]);
  });

  describe('a repacked file found damaged is discarded, the error says so, and the next run makes it anew', () => {
    let reference: RowResult[];
    let [own, file] = ['', ''];
    const streamed = (): EngineOptions => ({
      model: model('llama-Q4_1.gguf'),
      batchSize: 4,
      tokensPerSquare: 16,
      disk: own,
      weights: { cpu: 0, disk: 1 },
    });
    const collect = async (engine: Engine): Promise<RowResult[]> => {
      const results: RowResult[] = [];
      for await (const row of engine.generate(unequalRows, { logprobs: 1 })) results.push(row);
      return results;
    };
    /** In place, as a disk does it. */
    const damageLastLayer = (): void => {
      const contents = readFileSync(file);
      const descriptor = openSync(file, 'r+');
      writeSync(descriptor, Buffer.alloc(16, 0x58), 0, 16, contents.length - 4096);
      closeSync(descriptor);
    };
    beforeEach(async () => {
      own = mkdtempSync(join(disk, 'damaged-'));
      reference = await generate(streamed());
      file = join(own, readdirSync(own)[0] ?? '');
    });

    test('while the model is opened', async () => {
      damageLastLayer();
      await expect(Engine.open(streamed())).rejects.toMatchObject({
        name: 'ModelFileError',
        file,
        message: expect.stringMatching(/layer 1 at offset .*checksum.*; this file .*removed: run again/) as unknown,
      });
      expect(existsSync(file)).toBe(false);
      await expect(generate(streamed())).resolves.toEqual(reference);
      expect(existsSync(file)).toBe(true);
    });

    test('while its layers stream', async () => {
      await using engine = await Engine.open(streamed());
      damageLastLayer();
      await expect(collect(engine)).rejects.toMatchObject({
        name: 'TaskError',
        message: expect.stringMatching(
          /load_weight .*layer 1 at offset .*checksum.*; this file .*removed: run again/,
        ) as unknown,
      });
      expect(existsSync(file)).toBe(false);
      await expect(generate(streamed())).resolves.toEqual(reference);
    });
  });

  test('a repacked file that is overwritten while its layers stream is found out in the next pass; one that was only touched goes on', async () => {
    const own = mkdtempSync(join(disk, 'overwritten-'));
    await using engine = await Engine.open({
      model: model('llama-Q4_1.gguf'),
      batchSize: 4,
      tokensPerSquare: 16,
      disk: own,
      weights: { cpu: 0, disk: 1 },
    });
    const collect = async (): Promise<RowResult[]> => {
      const results: RowResult[] = [];
      for await (const row of engine.generate(unequalRows, { logprobs: 1 })) results.push(row);
      return results;
    };
    const before = await collect();
    const file = join(own, readdirSync(own)[0] ?? '');
    utimesSync(file, new Date(), new Date());
    await expect(collect()).resolves.toEqual(before);
    const { size } = statSync(file);
    const descriptor = openSync(file, 'r+');
    writeSync(descriptor, Buffer.alloc(16, 0x58), 0, 16, size - 4096);
    closeSync(descriptor);
    await expect(collect()).rejects.toMatchObject({
      name: 'TaskError',
      message: expect.stringMatching(/load_weight .*layer 1 at offset .*checksum.*run again/) as unknown,
    });
  });

  test('what it cannot do within a cap it refuses before anything is written, and names the smaller budget of memory and of streaming', async () => {
    const own = join(disk, 'not', 'made');
    const refusal: unknown = await Engine.open({
      model: model('gemma3-mixed.gguf'),
      disk: own,
      cpuMemory: '1MiB',
    }).catch((error: unknown) => error);
    // With four layers, two of them at a time take less memory than all.
    expect(refusal).toMatchObject({
      name: 'MemoryBudgetError',
      tier: 'cpu',
      message: expect.stringContaining('streaming from disk') as unknown,
    });
    const inMemory: unknown = await Engine.open({
      model: model('gemma3-mixed.gguf'),
      disk: own,
      cpuMemory: '1MiB',
      weights: { cpu: 1, disk: 0 },
    }).catch((error: unknown) => error);
    expect(inMemory).toMatchObject({
      name: 'MemoryBudgetError',
      message: expect.stringContaining('with its working memory') as unknown,
    });
    for (const weights of [undefined, { cpu: 0.3, disk: 0.7 }]) {
      await expect(
        Engine.open({ model: model('llama-Q4_1.gguf'), disk: own, cpuMemory: '1MiB', ...(weights && { weights }) }),
      ).rejects.toThrow(MemoryBudgetError);
    }
    expect(existsSync(join(disk, 'not'))).toBe(false);
  });

  test('a cap on the disk that is too small names one that works', async () => {
    const options = { model: model('gemma3-mixed.gguf'), disk: join(disk, 'capped'), weights: { cpu: 0, disk: 1 } };
    const refusal: unknown = await Engine.open({ ...options, diskMemory: 1000 }).catch((error: unknown) => error);
    if (!(refusal instanceof MemoryBudgetError)) throw refusal;
    expect(refusal.tier).toBe('disk');
    await using engine = await Engine.open({ ...options, diskMemory: refusal.neededBytes });
    expect(engine.loadSeconds).toBeGreaterThan(0);
  });

  test.each(['onRepack', 'onLoad'] as const)('a signal that fires in %s ends the opening', async (when) => {
    const controller = new AbortController();
    const opening = Engine.open({
      model: model('llama-Q4_1.gguf'),
      disk: join(disk, when),
      weights: { cpu: 0, disk: 1 },
      signal: controller.signal,
      [when]: () => controller.abort('enough'),
    });
    await expect(opening).rejects.toMatchObject({ name: 'InterruptedError', cause: 'enough' });
  });

  test('shares that make no sense, and too little disk, are refused', async () => {
    for (const weights of [
      { cpu: 0.5, disk: 0.6 },
      { cpu: -1, disk: 2 },
      { cpu: NaN, disk: 0 },
    ]) {
      await expect(Engine.open({ model: model('llama-Q4_1.gguf'), disk, weights })).rejects.toThrow(UsageError);
    }
    await expect(
      Engine.open({ model: model('llama-Q4_1.gguf'), disk, weights: { cpu: 0, disk: 1 }, diskMemory: 1000 }),
    ).rejects.toThrow(MemoryBudgetError);
  });
});
