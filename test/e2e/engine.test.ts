import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import fc from 'fast-check';
import { fileURLToPath } from 'node:url';
import { getEventListeners } from 'node:events';
import { firstValueFrom, from, lastValueFrom, Observable, Subject, toArray } from 'rxjs';
import {
  Engine,
  InterruptedError,
  MemoryBudgetError,
  ModelFileError,
  offloadGenerate,
  UsageError,
  type EngineOptions,
  type Progress,
  type Row,
  type RowInput,
  type RowResult,
  type RunOptions,
  type RunStats,
  type TraceEvent,
} from '../../src/index.js';
import { compute, loadWeight, pulled, serialize, synchronize } from '../../src/api/operators.js';
import { diagonalBlock, rowByRow, zigZagBlock } from '../../src/api/schedules.js';
import { liveHeapBytes } from '../support/liveHeapBytes.js';
import { tries } from '../support/tries.js';

const model = (name: string): string => fileURLToPath(new URL(`../fixtures/models/${name}`, import.meta.url));

/** Rows of unequal lengths, made from a seed; some sample, some stop early. */
function rowsOf(count: number): Row[] {
  return Array.from({ length: count }, (_, i) => ({
    id: `row ${i}`,
    tokens: Array.from({ length: 1 + ((i * 7) % 40) }, (_, j) => (i * 31 + j * 17 + 3) % 250),
    maxNewTokens: 1 + ((i * 5) % 11),
    ...(i % 3 === 1 && { temperature: 0.8, topP: 0.9, seed: i }),
    ...(i % 5 === 2 && { repetitionPenalty: 1.3 }),
  }));
}

async function collect(rows: AsyncIterable<RowResult>): Promise<RowResult[]> {
  const list: RowResult[] = [];
  for await (const row of rows) list.push(row);
  return list;
}

async function generate(
  options: Partial<EngineOptions> & { model: string },
  rows: Iterable<RowInput>,
  run: RunOptions = {},
): Promise<RowResult[]> {
  await using engine = await Engine.open(options);
  return await collect(engine.generate(rows, run));
}

const essence = ({ id, tokens, finishReason, logprobs }: RowResult): unknown => ({
  id,
  tokens,
  finishReason,
  logprobs,
});
const byId = (results: readonly RowResult[]): Map<unknown, unknown> =>
  new Map(results.map((result) => [result.id, essence(result)]));

const COMPANIES: readonly (readonly [string, Partial<EngineOptions>])[] = [
  ['llama-Q4_1.gguf', {}],
  ['gemma2-Q8_0.gguf', {}],
  ['gemma3-mixed.gguf', {}],
  ['mixtral', {}],
  ['qwen3-moe', {}],
  ['gpt-oss-mxfp4', {}],
  ['gpt-oss-MXFP4.gguf', { compressCache: '8bit', sparseAttention: 0.3 }],
  ['falcon-rw', {}],
  ['opt-post-projected', {}],
  ['llama-Q4_1.gguf', { compressCache: '4bit', sparseAttention: 0.3 }],
  ['gemma3-mixed.gguf', { compressCache: '8bit', precision: 'float32' }],
];
describe.each(COMPANIES)('%s, %j: a row does not depend on its company', (name, more) => {
  const rows = rowsOf(40);
  const options = { model: model(name), cpuMemory: '4GiB', ...more };
  let reference: Map<unknown, unknown>;
  beforeAll(async () => {
    reference = new Map();
    await using engine = await Engine.open({ ...options, batchSize: 1, threads: 1 });
    for (const row of rows) {
      const [alone] = await collect(engine.generate([row], { logprobs: 2 }));
      if (alone) reference.set(alone.id, essence(alone));
    }
  });

  test('bitwise: whatever the batch, the chunks, the threads, the order, the schedule, the window', async () => {
    const setup = fc.record({
      order: fc.shuffledSubarray([...rows.keys()], { minLength: 2 }),
      batchSize: fc.integer({ min: 1, max: 40 }),
      batches: fc.integer({ min: 1, max: 3 }),
      extra: fc.integer({ min: 0, max: 60 }),
      threads: fc.integer({ min: 1, max: 4 }),
      window: fc.integer({ min: 1, max: 20 }),
      schedule: fc.constantFrom(rowByRow(), zigZagBlock(), diagonalBlock()),
      serial: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(setup, async ({ order, batchSize, batches, extra, threads, window, schedule, serial }) => {
        const chosen = order.flatMap((index) => rows.slice(index, index + 1));
        const results = await generate(
          { ...options, batchSize, batches, threads, tokensPerSquare: batchSize + extra },
          chosen,
          {
            logprobs: 2,
            window,
            schedule,
            ...(serial && { pipeline: (run) => serialize(loadWeight(run), compute(run), synchronize(run)) }),
          },
        );
        expect(results.map(({ id }) => id)).toEqual(chosen.map(({ id }) => id));
        for (const [id, result] of byId(results)) expect(result).toEqual(reference.get(id));
      }),
      { numRuns: tries(4, 12) },
    );
  });
});

describe('an engine', () => {
  let engine: Engine;
  beforeAll(async () => {
    engine = await Engine.open({ model: model('llama-Q4_1.gguf'), batchSize: 4, tokensPerSquare: 16 });
  });
  afterAll(() => engine.close());

  test('takes rows from iterables, async iterables, web streams and Observables alike', async () => {
    const rows = rowsOf(9);
    const expected = byId(await collect(engine.generate(rows)));
    const asynchronous = (async function* () {
      yield* rows;
    })();
    const stream = ReadableStream.from(rows) as ReadableStream<RowInput>;
    for (const source of [asynchronous, stream, from(rows)])
      expect(byId(await collect(engine.generate(source)))).toEqual(expected);
    expect(byId(await lastValueFrom(from(rows).pipe(offloadGenerate(engine), toArray())))).toEqual(expected);
  });

  test('a bad row is a result in its place', async () => {
    const results = await collect(
      engine.generate(
        [
          { tokens: [1, 2] },
          { tokens: [99_999] },
          { id: 'x', error: { code: 'invalid-json', message: 'no' } },
          { tokens: [3] },
        ],
        { maxNewTokens: 2 },
      ),
    );
    expect(results.map(({ index, finishReason, error }) => [index, finishReason, error?.code])).toEqual([
      [0, 'length', undefined],
      [1, 'error', 'token-out-of-range'],
      [2, 'error', 'invalid-json'],
      [3, 'length', undefined],
    ]);
  });

  test('in order of completion a short row does not wait for a long one', async () => {
    const rows = [
      { tokens: [1, 2], maxNewTokens: 40 },
      { tokens: [3], maxNewTokens: 1 },
    ];
    const ids = async (order: 'input' | 'completion'): Promise<unknown[]> =>
      (await collect(engine.generate(rows, { order }))).map(({ id }) => id);
    await expect(ids('input')).resolves.toEqual([1, 2]);
    await expect(ids('completion')).resolves.toEqual([2, 1]);
  });

  test('runs may feed one another', async () => {
    const first = engine.generate(rowsOf(30), { maxNewTokens: 3 });
    const second = (async function* (): AsyncGenerator<Row> {
      for await (const { id, tokens } of first) yield { id, tokens };
    })();
    const results = await collect(engine.generate(second, { maxNewTokens: 2 }));
    expect(results.map(({ id }) => id)).toEqual(rowsOf(30).map(({ id }) => id));
    expect(results.every(({ finishReason }) => finishReason !== 'error')).toBe(true);
  });

  test('a consumer that stops early ends the run, and the next one finds everything free', async () => {
    for await (const row of engine.generate(rowsOf(50))) if (row.index === 3) break;
    const results = await collect(engine.generate(rowsOf(50)));
    expect(results).toHaveLength(50);
  });

  test('a consumer that does not take results stops admission', async () => {
    let pulled = 0;
    const rows = (function* () {
      for (;;) yield { tokens: [++pulled % 250], maxNewTokens: 1 };
    })();
    const results = engine.generate(rows);
    await results.next();
    // Rows that came in go on being computed for as long as the machine needs. Without an end to admission this comes
    // to no end either.
    for (let before = 0; before !== pulled; await new Promise((resolve) => setTimeout(resolve, 300))) before = pulled;
    expect(pulled).toBeLessThan(100_000);
    await results.return();
  });

  test('an input that fails is the error of the iteration, after the rows before it', async () => {
    const seen: number[] = [];
    const rows = (async function* () {
      yield* rowsOf(2);
      await new Promise((resolve) => setTimeout(resolve, 200));
      throw new Error('the tape broke');
    })();
    await expect(
      (async () => {
        for await (const row of engine.generate(rows)) seen.push(row.index);
      })(),
    ).rejects.toThrow('the tape broke');
    expect(seen).toEqual([0, 1]);
  });

  test('an AbortSignal ends it: at once if it has fired, else with what was finished', async () => {
    await expect(collect(engine.generate(rowsOf(3), { signal: AbortSignal.abort() }))).rejects.toThrow(
      InterruptedError,
    );
    const controller = new AbortController();
    const seen: number[] = [];
    await expect(
      (async () => {
        for await (const row of engine.generate(rowsOf(500), { signal: controller.signal })) {
          seen.push(row.index);
          if (row.index === 5) controller.abort();
        }
      })(),
    ).rejects.toThrow(InterruptedError);
    expect(seen.length).toBeGreaterThanOrEqual(6);
    expect(seen.length).toBeLessThan(500);
  });

  const long = { tokens: [1, 2], maxNewTokens: 400 };
  const short = Array.from({ length: 20 }, (_, i) => ({ tokens: [i + 3], maxNewTokens: 1 }));

  test('rows that are finished when a run is aborted are delivered, although an earlier one is not', async () => {
    const controller = new AbortController();
    let stats: RunStats | undefined;
    const seen: number[] = [];
    // Four places, and four rows that wait: when the last one is read, most have been through.
    const rows = (function* () {
      yield long;
      yield* short;
      controller.abort();
      yield { tokens: [1] };
    })();
    const run = engine.generate(rows, {
      ignoreEos: true,
      lookAhead: { rows: 0 },
      signal: controller.signal,
      onStats: (each) => (stats = each),
    });
    await expect(
      (async () => {
        for await (const row of run) seen.push(row.index);
      })(),
    ).rejects.toThrow(InterruptedError);
    expect(seen.length).toBeGreaterThan(9);
    expect(stats?.rows.done).toBe(seen.length);
    expect(seen).toEqual([...seen].sort((a, b) => a - b));
    expect(seen).not.toContain(0);
  });

  test('a source that fails costs none of the rows before; a queue that is full goes on in a file, and what overflows that is told at once', async () => {
    const failing = (function* () {
      yield* short;
      throw new Error('the tape broke');
    })();
    const waiting = from([...short, ...short]);
    let answered = 0;
    for await (const _ of engine.generate(pulled(waiting, { capacity: 20 }))) answered++;
    expect(answered).toBe(40);
    const overflowing = pulled(waiting, { capacity: 20, fileBytes: 0 });
    for (const [source, message, rows] of [
      [failing, 'the tape broke', 20],
      [overflowing, '20 values wait, and no more may', 0],
    ] as const) {
      let count = 0;
      await expect(
        (async () => {
          for await (const _ of engine.generate(source)) count++;
        })(),
      ).rejects.toThrow(message);
      expect(count).toBe(rows);
    }
  });

  test('whatever ends a run early unsubscribes from a source that is silent', async () => {
    const row = { tokens: [1], maxNewTokens: 1 };
    const pulledOnce = new Subject<RowInput>();
    setImmediate(() => {
      pulledOnce.next(row);
    });
    for await (const _ of engine.generate(pulledOnce)) break;
    expect(pulledOnce.observed).toBe(false);

    const taken = new Subject<RowInput>();
    const first = firstValueFrom(taken.pipe(offloadGenerate(engine)));
    taken.next(row);
    await first;
    expect(taken.observed).toBe(false);

    const left = new Subject<RowInput>();
    const subscription = left.pipe(offloadGenerate(engine)).subscribe();
    expect(left.observed).toBe(true);
    subscription.unsubscribe();
    expect(left.observed).toBe(false);

    const aborted = new Subject<RowInput>();
    const controller = new AbortController();
    const end = lastValueFrom(aborted.pipe(offloadGenerate(engine, { signal: controller.signal })));
    controller.abort();
    expect(aborted.observed).toBe(false);
    await expect(end).rejects.toThrow(InterruptedError);
  });

  test.each(['onProgress', 'onStats', 'onTrace'] as const)(
    '%s that throws fails the run with what it threw; the process goes on, and so does the engine',
    async (name) => {
      const thrown = new Error('mine');
      const fails = {
        [name]: () => {
          throw thrown;
        },
      };
      const seen: number[] = [];
      await expect(
        (async () => {
          for await (const row of engine.generate(short, fails)) seen.push(row.index);
        })(),
      ).rejects.toBe(thrown);
      if (name === 'onStats') expect(seen).toEqual([...short.keys()]);
      await expect(lastValueFrom(from(short).pipe(offloadGenerate(engine, fails)))).rejects.toBe(thrown);
      await expect(collect(engine.generate(short))).resolves.toHaveLength(20);
    },
  );

  test.each<[string, RunOptions]>([
    [
      'schedule that does not start',
      {
        schedule: {
          ...diagonalBlock(),
          start: () => {
            throw new Error('as asked');
          },
        },
      },
    ],
    [
      'pipeline that throws',
      {
        pipeline: () => {
          throw new Error('as asked');
        },
      },
    ],
    ['pipeline that makes no stages', { pipeline: (() => 'as asked') as never }],
    ['pipeline whose stages return no Observable', { pipeline: (() => () => 'as asked') as never }],
  ])('a %s fails the run, of which nothing is left', async (_, options) => {
    const device = engine['runs']['device'];
    const { completed$ } = device;
    let observers = 0;
    const watched = new Observable((subscriber) => {
      observers++;
      const subscription = completed$.subscribe(subscriber);
      return () => {
        observers--;
        subscription.unsubscribe();
      };
    });
    Object.defineProperty(device, 'completed$', { value: watched, configurable: true });
    try {
      for (let i = 0; i < 3; i++)
        await expect(collect(engine.generate([{ tokens: [1] }], options))).rejects.toThrow('as asked');
      await expect(lastValueFrom(from([{ tokens: [1] }]).pipe(offloadGenerate(engine, options)))).rejects.toThrow(
        'as asked',
      );
    } finally {
      Object.defineProperty(device, 'completed$', { value: completed$, configurable: true });
    }
    expect(observers).toBe(0);
  });

  test('many runs share one listener of a signal', async () => {
    const { signal } = new AbortController();
    const runs = Array.from({ length: 12 }, () =>
      collect(engine.generate([{ tokens: [1], maxNewTokens: 2 }], { signal })),
    );
    await new Promise((resolve) => setImmediate(resolve));
    expect(getEventListeners(signal, 'abort')).toHaveLength(1);
    await Promise.all(runs);
    expect(getEventListeners(signal, 'abort')).toHaveLength(0);
  });

  test('an end token, a stop string and a length end rows; log-probabilities come one a token', async () => {
    const [plain] = await collect(engine.generate([{ tokens: [5, 6, 7] }], { maxNewTokens: 6, logprobs: 3 }));
    expect(plain?.logprobs).toHaveLength(plain?.tokens.length ?? -1);
    for (const { token, logprob, top } of plain?.logprobs ?? []) {
      expect(top).toHaveLength(3);
      expect(top[0]).toEqual({ token, logprob });
      expect(top.map((each) => each.logprob)).toEqual(top.map((each) => each.logprob).sort((a, b) => b - a));
    }
  });

  test('a compressed cache takes less memory; it and sparse attention change scores a little; anything else is refused', async () => {
    const tokens = Array.from({ length: 200 }, (_, i) => 3 + ((i * i * 7 + i) % 240));
    const scoreOf = async (options: Partial<EngineOptions>): Promise<number> => {
      await using other = await Engine.open({ model: model('llama-Q4_1.gguf'), ...options });
      return (await other.perplexity(tokens, { window: 100 })).negativeLogLikelihood;
    };
    const plain = await scoreOf({});
    for (const options of [{ compressCache: '8bit' }, { compressCache: '4bit' }, { sparseAttention: 0.5 }] as const) {
      const score = await scoreOf(options);
      expect(score).not.toBe(plain);
      expect(Math.abs(score / plain - 1)).toBeLessThan(0.05);
    }
    for (const options of [
      { compressCache: '2bit' },
      { sparseAttention: 0 },
      { sparseAttention: 1.1 },
      { sparseAttention: NaN },
      { sparseAttention: '0.1' },
    ]) {
      await expect(
        Engine.open({ model: model('llama-Q4_1.gguf'), ...(options as Partial<EngineOptions>) }),
      ).rejects.toThrow(UsageError);
    }
  });

  test('sparse attention is dense for what is given of a window, as it is for prompts', async () => {
    const tokens = Array.from({ length: 120 }, (_, i) => 3 + ((i * i * 7 + i) % 240));
    const lossOf = async (options: Partial<EngineOptions>, promptTokens: number): Promise<number> => {
      await using other = await Engine.open({
        model: model('llama-Q4_1.gguf'),
        batchSize: 4,
        tokensPerSquare: 50,
        ...options,
      });
      return (await other.perplexity(tokens, { window: 120, promptTokens })).negativeLogLikelihood;
    };
    // One scored token: the last one's likelihood follows from the position before it, which is the prompt's last or
    // the first generated one.
    expect(await lossOf({ sparseAttention: 0.05 }, 119)).toBe(await lossOf({}, 119));
    expect(await lossOf({ sparseAttention: 0.05 }, 118)).not.toBe(await lossOf({}, 118));
  });

  test('perplexity does not depend on the batch, and refuses windows that make no sense', async () => {
    const tokens = Array.from({ length: 70 }, (_, i) => (i * 37) % 250);
    const score = await engine.perplexity(tokens, { window: 16 });
    expect(score.tokens).toBe(70 - 5); // five windows, of 16, 16, 16, 16 and 6
    expect(score.perplexity).toBeCloseTo(Math.exp(score.negativeLogLikelihood / 65), 10);
    await using single = await Engine.open({ model: model('llama-Q4_1.gguf'), batchSize: 1, threads: 1 });
    await expect(single.perplexity(tokens, { window: 16 })).resolves.toEqual(score);
    for (const window of [1, 0, -3, 1.5, NaN])
      await expect(engine.perplexity(tokens, { window })).rejects.toThrow(UsageError);
    for (const promptTokens of [0, 16, 1.5, NaN])
      await expect(engine.perplexity(tokens, { window: 16, promptTokens })).rejects.toThrow(UsageError);
  });

  test('reports progress, statistics and a trace', async () => {
    let stats: RunStats | undefined;
    const trace: TraceEvent[] = [];
    const results = await collect(
      engine.generate(rowsOf(8), { onStats: (each) => (stats = each), onTrace: (event) => trace.push(event) }),
    );
    const generated = results.reduce((sum, { tokens }) => sum + tokens.length, 0);
    expect(stats).toMatchObject({ rows: { done: 8, failed: 0 }, tokens: { generated } });
    expect(stats?.queues['cpu-compute']?.tasks).toBe(trace.filter(({ ph }) => ph === 'X').length);
    expect(new Set(trace.filter(({ ph }) => ph === 'X').map(({ name }) => name.split(' ', 1)[0]))).toEqual(
      new Set(['compute']),
    );
    // Nothing moves, so a layer is one task.
    expect(new Set(trace.filter(({ ph }) => ph === 'X').map(({ args }) => args['part']))).toEqual(
      new Set(['embed', 'layer', 'head']),
    );
    // Queues that did nothing have no track.
    expect(trace.filter(({ name }) => name === 'thread_name').map(({ args }) => args['name'])).toEqual(['cpu-compute']);
  });

  const reuse: NonNullable<RunOptions['reuse']> = {
    get: () => ({ text: 'x', tokens: [5], finishReason: 'stop' }),
    put: () => undefined,
  };

  test.each<[string, RowInput, RunOptions]>([
    ['are answered by an earlier run', { tokens: [1] }, { reuse }],
    ['are refused', { tokens: [-1] }, {}],
  ])('reports progress while all rows %s', async (_, row, options) => {
    const reports: Progress[] = [];
    // Without reports there is no end to it.
    function* untilReported(): Generator<RowInput> {
      while (reports.length < 5) yield row;
    }
    const { length } = await collect(
      engine.generate(untilReported(), { ...options, onProgress: (progress) => reports.push(progress) }),
    );
    const ended = reports.map(({ rowsDone, rowsFailed }) => rowsDone + rowsFailed);
    expect(ended).toEqual(ended.toSorted((a, b) => a - b));
    expect(ended[4]).toBeGreaterThan(ended[0] ?? Infinity);
    expect(ended.at(-1)).toBe(length);
  });

  test('onProgress that throws while all rows are answered by an earlier run fails the run, and their source is let go of', async () => {
    let closed = false;
    function* endless(): Generator<RowInput> {
      try {
        for (;;) yield { tokens: [1] };
      } finally {
        closed = true;
      }
    }
    let reports = 0;
    const onProgress = (progress: Progress): void => {
      if (++reports > 2 && progress.rowsDone > 0) throw new Error('as asked');
    };
    await expect(collect(engine.generate(endless(), { reuse, onProgress }))).rejects.toThrow('as asked');
    expect(closed).toBe(true);
  });

  test.each<[Partial<EngineOptions>, RegExp]>([
    [{ threads: 0 }, /threads: found 0/],
    [{ batchSize: 1.5 }, /batchSize: found 1.5/],
    [{ batchSize: 60, tokensPerSquare: 50 }, /batchSize: found 60, expected at most tokensPerSquare, 50/],
    [{ cpuMemory: 'much' }, /cpuMemory: found "much"/],
    [{ device: 'cuda' }, /device: found "cuda", but there is no GPU here .*: expected auto or cpu/],
    [{ precision: 'half' as 'default' }, /precision: found "half"/],
    [{ instructionSet: 'mmx' as 'avx2' }, /instructionSet: found "mmx"/],
  ])('refuses %j', async (options, message) => {
    await expect(Engine.open({ model: model('llama-Q4_1.gguf'), ...options })).rejects.toThrow(message);
  });

  test.each<[RunOptions, RegExp]>([
    [{ temperature: -1 }, /temperature: found -1/],
    [{ logprobs: 1e6 }, /logprobs/],
    [{ order: 'any' as 'input' }, /order/],
    [{ window: 0 }, /window/],
  ])('refuses to generate with %j', (options, message) => {
    expect(() => engine.generate([], options)).toThrow(message);
  });

  test('names the smallest budget, which then works', async () => {
    const open = async (cpuMemory: number): Promise<RowResult[]> =>
      await generate({ model: model('llama-Q4_1.gguf'), cpuMemory }, [{ tokens: [1] }], { maxNewTokens: 1 });
    // The process grows and shrinks between the two calls, with all that other suites have left in it.
    const held = jest.spyOn(process.memoryUsage, 'rss').mockReturnValue(process.memoryUsage.rss());
    try {
      const refusal: unknown = await open(2 ** 20).catch((error: unknown) => error);
      if (!(refusal instanceof MemoryBudgetError)) throw refusal;
      await expect(open(refusal.neededBytes)).resolves.toHaveLength(1);
    } finally {
      held.mockRestore();
    }
  });

  test('wrong options are refused before a model is looked for, those that are wrong only together and policies too', async () => {
    const nowhere = '/no/such/model.gguf';
    for (const [options, message] of [
      [{ threads: -1 }, 'threads: found -1'],
      [{ batchSize: 60, tokensPerSquare: 50 }, 'batchSize: found 60'],
      [{ thread: 2 }, 'unknown "thread"'],
      [{ disk: model('llama-Q4_1.gguf') }, 'is no folder'],
      [{ policy: { weights: { gpu: 1 } } }, 'policy: found weights.gpu 1'],
      [{ policy: { batchSize: 9 }, tokensPerSquare: 8 }, 'batchSize: found 9'],
      [{ onLoad: 3 }, 'onLoad: found 3'],
    ] as const) {
      await expect(Engine.open({ model: nowhere, ...(options as object) })).rejects.toThrow(message);
    }
    await expect(Engine.open(undefined as unknown as EngineOptions)).rejects.toThrow(UsageError);
  });

  test.each(['onLoad', 'onPlan'] as const)('what %s throws is what opening rejects with', async (name) => {
    const mine = new Error('mine');
    const options = {
      model: model('llama-Q4_1.gguf'),
      [name]: () => {
        throw mine;
      },
    };
    await expect(Engine.open(options)).rejects.toBe(mine);
  });

  test('a signal that fires while weights are loaded ends it', async () => {
    const controller = new AbortController();
    const onLoad = (): void => {
      controller.abort();
    };
    await expect(Engine.open({ model: model('llama-Q4_1.gguf'), onLoad, signal: controller.signal })).rejects.toThrow(
      InterruptedError,
    );
  });

  test('says of its compression what it is, and nothing else', () => {
    expect(engine.compression).toEqual({ compressWeights: 'none', compressCache: 'none' });
  });

  test('what cannot be rows is refused at once, and so is a text of which nothing would be scored', async () => {
    for (const rows of [undefined, { prompt: 'a' }, 'text'])
      expect(() => engine.generate(rows as unknown as Row[])).toThrow(/^rows: found/);
    for (const tokens of [[], [1]]) await expect(engine.perplexity(tokens, { window: 4 })).rejects.toThrow(UsageError);
    expect(() => engine.generate([], { maxTokens: 3 } as RunOptions)).toThrow('options: found the unknown "maxTokens"');
  });

  test('a model that is not there is named', async () => {
    await expect(Engine.open({ model: '/no/such/model.gguf' })).rejects.toThrow(ModelFileError);
  });

  test('closing ends what runs, and further calls say that it is closed', async () => {
    const short = await Engine.open({ model: model('llama-Q4_1.gguf'), batchSize: 2 });
    const running = collect(short.generate(rowsOf(200)));
    running.catch(() => undefined);
    await short.close();
    await expect(running).rejects.toThrow(InterruptedError);
    expect(() => short.generate([])).toThrow(/closed/);
    await short.close();
  });

  test('a closed one is given back, and all that its runs have seen', async () => {
    const opened = async (): Promise<WeakRef<Engine>> => {
      await using engine = await Engine.open({ model: model('llama-Q4_1.gguf'), batchSize: 2 });
      await collect(engine.generate(rowsOf(5)));
      return new WeakRef(engine);
    };
    const engines = [await opened(), await opened(), await opened()];
    // What was awaited last may still be on somebody's stack for a while. One that is held makes this endless.
    while (engines.some((engine) => engine.deref() !== undefined)) {
      await new Promise((resolve) => setTimeout(resolve, 10));
      liveHeapBytes();
    }
  });
});
