import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import {
  Engine,
  InterruptedError,
  PeerError,
  TaskError,
  UsageError,
  type ActivationLink,
  type EngineOptions,
  type FollowOptions,
  type Row,
  type RowResult,
  type RunOptions,
  type RunStats,
  type TraceEvent,
} from '../../src/index.js';
import { readModel } from '../../src/api/models.js';
import { defaultPipeline, serialPipeline } from '../../src/api/operators.js';
import { diagonalBlock, rowByRow, zigZagBlock } from '../../src/api/schedules.js';
import { recordsOfTrace, validatePath } from '../../src/api/testing.js';
import { schedules } from '../support/arbitraryRuns.js';
import { engineRing } from '../support/engineRing.js';
import { randomPipeline } from '../support/randomPipeline.js';
import { at, collect, model } from './support.js';
import { crossed, inTurn, tries } from '../support/tries.js';

// Prompts of one token to more than a square has, answers of unequal lengths, greedy and sampled, more rows than
// places.
const rows: Row[] = Array.from({ length: 14 }, (_, i) => ({
  id: i,
  tokens: Array.from({ length: 1 + ((i * 5) % 37) }, (__, j) => (i * 31 + j * 17 + 3) % 250),
  maxNewTokens: 1 + ((i * 3) % 7),
  ...(i % 3 === 0 && { temperature: 0.8, seed: i, repetitionPenalty: 1.2 }),
}));
let disk: string;
beforeAll(() => {
  disk = mkdtempSync(join(tmpdir(), 'spillway-stages-'));
});
afterAll(() => {
  rmSync(disk, { recursive: true });
});

/** A model of the same shape, with another byte at its end. */
function edited(file: string): string {
  const copy = join(disk, 'edited.gguf');
  writeFileSync(copy, Buffer.concat([readFileSync(file), Buffer.from('x')]));
  return copy;
}

const OPENED = { batchSize: 2, tokensPerSquare: 12, threads: 2 } as const;

async function whole(options: EngineOptions, run: RunOptions = {}): Promise<RowResult[]> {
  await using engine = await Engine.open({ ...OPENED, disk, ...options });
  return await collect(engine.generate(rows, { logprobs: 2, ...run }));
}

async function inRing(
  counts: readonly number[],
  options: EngineOptions,
  run: RunOptions = {},
  follow: FollowOptions = {},
): Promise<RowResult[]> {
  await using ring = await engineRing(counts, { ...OPENED, disk, ...options });
  const [first, ...later] = ring.engines.map((engine, index) => ({ engine, index }));
  const peers = ring.connect();
  const following = later.map(({ engine, index }) => engine.follow(at(peers, index), follow));
  const results = first ? collect(first.engine.generate(rows, { logprobs: 2, ...run, peers: at(peers, 0) })) : [];
  await Promise.all([results, ...following]);
  return await results;
}

const SCHEDULES = [rowByRow(), zigZagBlock(), diagonalBlock()];

const DIVIDED = [
  ['llama-Q4_1.gguf', [[1, 1]]],
  ['llama-tied-biased', [[1, 1]]],
  ['opt-post-projected', [[1, 1]]],
  ['falcon-rw', [[1, 1]]],
  ['mixtral', [[1, 1]]],
  ['gpt-oss-mxfp4', [[1, 2]]],
  [
    'qwen2',
    [
      [1, 2],
      [1, 1, 1],
    ],
  ],
  [
    'gemma3',
    [
      [3, 1],
      [1, 2, 1],
      [1, 1, 1, 1],
    ],
  ],
] as const;
const WAYS = crossed(SCHEDULES, [defaultPipeline, serialPipeline]);
describe.each(DIVIDED.map(([name, divisions], nth) => [name, divisions, nth] as const))(
  '%s, its layers divided over engines',
  (name, divisions, nth) => {
    let reference: RowResult[];
    beforeAll(async () => {
      reference = await whole({ model: model(name) });
      expect(reference.every(({ error }) => error === undefined)).toBe(true);
    });

    test.each(divisions.map((counts, division) => [counts, nth + division] as const))(
      '%j: bitwise the same under every schedule and both pipelines',
      async (counts, turn) => {
        for (const [schedule, pipeline] of inTurn(WAYS, turn))
          await expect(
            inRing(counts, { model: model(name), batches: 2 }, { schedule, pipeline }, { pipeline }),
          ).resolves.toEqual(reference);
      },
    );
  },
);

describe('layers divided over engines', () => {
  const name = model('gemma3-mixed.gguf');
  let reference: RowResult[];
  let layers: number;
  beforeAll(async () => {
    reference = await whole({ model: name });
    layers = (await readModel(name)).decoder.layers;
    expect(layers).toBeGreaterThan(2);
  });

  test.each([
    ['weights streamed from disk', { weights: { cpu: 0, disk: 1 } }],
    ['weights in part', { weights: { cpu: 0.4, disk: 0.6 } }],
    ['cache on disk', { cache: { cpu: 0.3, disk: 0.7 } }],
    ['hidden states on disk', { activations: { cpu: 0.5, disk: 0.5 } }],
    [
      'everything on disk',
      { weights: { cpu: 0, disk: 1 }, cache: { cpu: 0, disk: 1 }, activations: { cpu: 0, disk: 1 } },
    ],
  ] as const)('with %s: bitwise the same', async (_, placement) => {
    const divisions = [
      [1, layers - 1],
      [1, 1, layers - 2],
    ];
    for (const [schedule, counts] of crossed(SCHEDULES, divisions))
      await expect(inRing(counts, { model: name, batches: 3, ...placement }, { schedule })).resolves.toEqual(reference);
  });

  test('any schedule, composition, window and cut: bitwise the same', async () => {
    const given = fc.record({
      first: fc.integer({ min: 1, max: 2 }),
      second: fc.integer({ min: 1, max: 2 }),
      schedule: schedules,
      batches: fc.integer({ min: 1, max: 3 }),
      parts: fc.option(fc.integer({ min: 1, max: 3 })),
      resident: fc.constantFrom(0, 0.3, 1),
      compositions: fc.tuple(fc.nat(), fc.nat()),
      aheads: fc.record({ weights: fc.nat(2), cache: fc.nat(2), activations: fc.nat(2) }),
      windows: fc.tuple(fc.integer({ min: 1, max: 10 }), fc.integer({ min: 1, max: 10 })),
    });
    await fc.assert(
      fc.asyncProperty(given, async ({ first, second, batches, parts, resident, compositions, aheads, ...run }) => {
        const { schedule, windows } = run;
        const counts = [first, second, layers - first - second].filter((count) => count > 0);
        const results = await inRing(
          counts,
          { model: name, batches, weights: { cpu: resident, disk: 1 - resident } },
          {
            schedule,
            // Row by row has one batch under way: parts of it are refused.
            ...(parts !== null && { microBatches: schedule.name === 'row' ? 1 : Math.min(parts, batches) }),
            window: windows[0],
            pipeline: randomPipeline(compositions[0], aheads),
          },
          { window: windows[1], pipeline: randomPipeline(compositions[1], aheads) },
        );
        expect(results).toEqual(reference);
      }),
      { numRuns: tries(4, 15) },
    );
  });

  test('each engine reads the weights of its own layers, once a pass for the whole block, and its path is valid', async () => {
    await using ring = await engineRing([1, layers - 1], {
      ...OPENED,
      model: name,
      disk,
      batches: 2,
      weights: { cpu: 0, disk: 1 },
    });
    const [front, back] = ring.engines;
    const [toBack, toFront] = ring.connect();
    if (!front || !back || !toBack || !toFront) throw new Error('a ring of two');
    const traces: TraceEvent[][] = [[], []];
    const following = back.follow(toFront, { onTrace: (event) => traces[1]?.push(event) });
    const results = await collect(
      front.generate(rows, {
        schedule: zigZagBlock(),
        ignoreEos: true,
        peers: toBack,
        onTrace: (event) => traces[0]?.push(event),
      }),
    );
    await following;
    const admitted = rows.map((row, index) => ({
      row: index,
      promptTokens: row.tokens?.length ?? 0,
      newTokens: row.maxNewTokens ?? 0,
    }));
    for (const [index, trace] of traces.entries()) {
      const loads = trace
        .filter(({ name: task }) => task.startsWith('load_weight '))
        .map(({ args }) => `${String(args['pass'])} ${String(args['layer'])}`);
      const computed = new Set(
        trace
          .filter(({ name: task }) => task.startsWith('compute '))
          .map(({ args }) => `${String(args['pass'])} ${String(args['layer'])}`),
      );
      expect(loads.sort()).toEqual([...computed].sort());
      const own = new Set([...computed].map((key) => Number(key.split(' ')[1])));
      expect([...own].sort()).toEqual(index === 0 ? [0] : Array.from({ length: layers - 1 }, (_, layer) => layer + 1));
      const part =
        index === 0
          ? { layers: 1, part: { first: 0, of: layers } }
          : { layers: layers - 1, part: { first: 1, of: layers } };
      validatePath(
        { ...part, slots: 2, rowsPerSlot: 2, tokensPerSquare: 12 },
        admitted,
        recordsOfTrace(trace, admitted).records,
      );
    }
    expect(results).toHaveLength(rows.length);
    // What goes over: the hidden states of every token that was computed, and the sampled tokens but each row's last.
    const tokens = results.reduce((sum, { usage }) => sum + usage.promptTokens + usage.completionTokens - 1, 0);
    const moved = (index: number, task: string, end: 'from' | 'to') =>
      (traces[index] ?? [])
        .filter((event) => event.name.startsWith(`${task} `) && event.args[end] === 'peer')
        .reduce((sum, { args }) => sum + Number(args['bytes']), 0);
    expect(moved(0, 'store_activation', 'to')).toBe(tokens * front.source.decoder.hiddenSize * 4);
    expect(moved(1, 'load_activation', 'from')).toBe(tokens * front.source.decoder.hiddenSize * 4);
    expect(moved(0, 'load_activation', 'from')).toBeGreaterThanOrEqual(
      results.reduce((sum, { usage }) => sum + usage.completionTokens - 1, 0) * 4,
    );
  });

  test('memory is planned for the layers that an engine has', async () => {
    const used = async (
      run: (options: { onStats: (stats: RunStats) => void }) => Promise<unknown>,
    ): Promise<number> => {
      let stats: RunStats | undefined;
      await run({ onStats: (each) => (stats = each) });
      return stats?.memory['cpu']?.peakBytes ?? NaN;
    };
    const opened = { ...OPENED, model: name, batches: 1 };
    await using ring = await engineRing([1, layers - 1], opened);
    await using all = await Engine.open(opened);
    const [front, back] = ring.engines;
    const [toBack, toFront] = ring.connect();
    if (!front || !back || !toBack || !toFront) throw new Error('a ring of two');
    const [frontBytes, backBytes, allBytes] = await Promise.all([
      used((options) => collect(front.generate(rows, { ...options, peers: toBack }))),
      used((options) => back.follow(toFront, options)),
      used((options) => collect(all.generate(rows, options))),
    ]);
    expect(frontBytes).toBeLessThan(allBytes);
    expect(backBytes).toBeLessThan(allBytes);
  });

  test('what does not fit together is refused, and nobody waits', async () => {
    await using ring = await engineRing([1, layers - 1], { ...OPENED, model: name });
    const [front, back] = ring.engines;
    if (!front || !back) throw new Error('a ring of two');
    expect(() => front.generate(rows)).toThrow(UsageError);
    expect(() => back.generate(rows, { peers: at(ring.connect(), 1) })).toThrow(UsageError);
    await expect(front.follow(at(ring.connect(), 0))).rejects.toThrow(UsageError);
    await expect(front.perplexity([1, 2, 3], { window: 3 })).rejects.toThrow(UsageError);
    const { source, sink } = at(ring.connect(), 1);
    for (const peers of [undefined, null, {}, { source }, { sink }, { source: 'x', sink }, { source, sink: {} }]) {
      await expect(back.follow(peers as never)).rejects.toThrow(/^peers\.(source|sink): found /);
      await expect(back.follow(peers as never)).rejects.toThrow(UsageError);
      if (peers) expect(() => front.generate(rows, { peers: peers as never })).toThrow(/^peers\.(source|sink): found /);
    }
    for (const layersOption of [
      { first: 0, count: 0 },
      { first: 1, count: layers },
      { first: -1, count: 1 },
      { first: 0.5, count: 1 },
    ]) {
      await expect(Engine.open({ ...OPENED, model: name, layers: layersOption })).rejects.toThrow(UsageError);
    }
    // A layer that nobody has, a model that is another one, slots that are too many: both sides hear of it.
    const misfits: readonly (readonly [EngineOptions, RegExp])[] = [
      [{ ...OPENED, model: name, layers: { first: 2, count: layers - 2 } }, /next layer: found 1, expected 2/],
      [{ ...OPENED, model: model('qwen2'), layers: { first: 1, count: 2 } }, /model family/],
      [{ ...OPENED, model: edited(name), layers: { first: 1, count: layers - 1 } }, /model contents/],
      [{ ...OPENED, model: name, layers: { first: 1, count: layers - 1 }, batchSize: 1 }, /rowsPerSlot: found 2/],
      [{ ...OPENED, model: name, layers: { first: 1, count: 1 } }, /engines of all/],
    ];
    for (const [options, message] of misfits) {
      await using other = await Engine.open(options);
      const [toOther, toFront] = ring.connect();
      if (!toOther || !toFront) throw new Error('a ring of two');
      const [following, results] = await Promise.allSettled([
        other.follow(toFront),
        collect(front.generate(rows, { peers: toOther })),
      ]);
      const reasons = [following, results].map((each) =>
        each.status === 'rejected' ? (each.reason as Error) : undefined,
      );
      for (const reason of reasons) expect(reason).toBeInstanceOf(PeerError);
      expect(reasons.map((reason) => reason?.message).join()).toMatch(message);
    }
    // The engines are as good as before.
    const [toBack, toFront] = ring.connect();
    if (!toBack || !toFront) throw new Error('a ring of two');
    const following = back.follow(toFront);
    expect(await collect(front.generate(rows, { logprobs: 2, peers: toBack }))).toEqual(reference);
    await following;
  });

  test('a second run at once is refused, whoever waits for it hears of that, and the first one is none the worse', async () => {
    await using ring = await engineRing([1, layers - 1], { ...OPENED, model: name });
    const [front, back] = ring.engines;
    const [first, second] = [ring.connect(), ring.connect()];
    if (!front || !back) throw new Error('a ring of two');
    // Followers do not know which one will come.
    const following = [back.follow(at(second, 1)), back.follow(at(first, 1))];
    const results: RowResult[] = [];
    for await (const row of front.generate(rows, { logprobs: 2, peers: at(first, 0) })) {
      results.push(row);
      if (results.length > 1) continue;
      await expect(collect(front.generate(rows, { peers: at(second, 0) }))).rejects.toThrow(PeerError);
      await expect(following[0]).rejects.toThrow(/found another run over engines of other layers under way/);
    }
    await following[1];
    expect(results).toEqual(reference);
    const third = ring.connect();
    const followed = back.follow(at(third, 1));
    expect(await collect(front.generate(rows, { logprobs: 2, peers: at(third, 0) }))).toEqual(reference);
    await followed;
  });

  test('an engine that follows two at once serves one after the other', async () => {
    await using ring = await engineRing([1, 1, layers - 2], { ...OPENED, model: name });
    await using other = await Engine.open({ ...OPENED, model: name, layers: { first: 0, count: 1 } });
    const [front, middle, back] = ring.engines;
    if (!front || !middle || !back) throw new Error('a ring of three');
    const generated = [front, other].map(async (engine) => {
      const peers = ring.connect();
      const following = [middle.follow(at(peers, 1)), back.follow(at(peers, 2))];
      const results = await collect(engine.generate(rows, { logprobs: 2, peers: at(peers, 0) }));
      await Promise.all(following);
      return results;
    });
    expect(await Promise.all(generated)).toEqual([reference, reference]);
  });

  test('an engine that a callback closes while a run of it is made refuses the run, whether it generates or follows', async () => {
    await using ring = await engineRing([1, layers - 1], { ...OPENED, model: name });
    const [front, back] = ring.engines;
    if (!front || !back) throw new Error('a ring of two');
    const closing = (engine: Engine): FollowOptions => ({ onTrace: () => void engine.close() });
    await expect(collect(front.generate(rows, { ...closing(front), peers: at(ring.connect(), 0) }))).rejects.toThrow(
      'the engine is closed',
    );
    await expect(back.follow(at(ring.connect(), 1), closing(back))).rejects.toThrow('the engine is closed');
  });

  test('a consumer that stops, a signal, an engine that is closed, hidden states of the wrong size: all end, and the engines go on', async () => {
    await using ring = await engineRing([1, 1, layers - 2], {
      ...OPENED,
      model: name,
      disk,
      batches: 2,
      weights: { cpu: 0, disk: 1 },
    });
    const [front, ...later] = ring.engines;
    if (!front) throw new Error('a ring of three');
    const round = async (options: {
      readonly run?: RunOptions;
      readonly follow?: FollowOptions;
      readonly stopAt?: number;
      readonly wrap?: (link: ActivationLink, from: number) => ActivationLink;
    }) => {
      const peers = ring.connect(options.wrap);
      const generating = (async () => {
        const taken: RowResult[] = [];
        for await (const row of front.generate(rows, { logprobs: 2, ...options.run, peers: at(peers, 0) })) {
          taken.push(row);
          if (taken.length === options.stopAt) break;
        }
        return taken;
      })();
      return await Promise.allSettled([
        generating,
        ...later.map((engine, index) => engine.follow(at(peers, index + 1), options.follow)),
      ]);
    };
    const statuses = (outcome: readonly PromiseSettledResult<unknown>[]) => outcome.map(({ status }) => status);

    expect(statuses(await round({ stopAt: 3 }))).toEqual(['fulfilled', 'fulfilled', 'fulfilled']);
    const stopped = new AbortController();
    // Once the first token is there: other rows have more than one to come.
    const onDelta = (): void => {
      stopped.abort();
    };
    const aborted = await round({ run: { signal: stopped.signal, ignoreEos: true, onDelta } });
    expect(
      aborted.map((each) => (each.status === 'rejected' ? (each.reason as Error).constructor : undefined)),
    ).toEqual([InterruptedError, PeerError, PeerError]);
    const wrong = await round({
      wrap: (link, from) =>
        from !== 0
          ? link
          : {
              ...link,
              sink: {
                ...link.sink,
                send: (message) =>
                  link.sink.send(message.kind === 'hidden' ? { ...message, hidden: message.hidden.slice(1) } : message),
              },
            },
    });
    expect(statuses(wrong)).toEqual(['rejected', 'rejected', 'rejected']);
    expect(wrong[1]).toMatchObject({ reason: expect.any(TaskError) });
    const whatever = await round({
      wrap: (link, from) =>
        from !== 2
          ? link
          : {
              ...link,
              sink: {
                ...link.sink,
                send: (message) =>
                  link.sink.send(message.kind === 'head' ? { ...message, pass: message.pass + 99 } : message),
              },
            },
    });
    expect(whatever[0]).toMatchObject({ status: 'rejected', reason: expect.any(PeerError) });

    expect(await round({})).toEqual([
      { status: 'fulfilled', value: reference },
      { status: 'fulfilled' },
      { status: 'fulfilled' },
    ]);
    const last = ring.engines.at(-1);
    const ended = round({ run: { ignoreEos: true } });
    await last?.close();
    expect(statuses(await ended)).toEqual(['rejected', 'rejected', 'rejected']);
  });
});
