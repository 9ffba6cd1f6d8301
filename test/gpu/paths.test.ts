import './support/emulatedAddon.js';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Engine, type RunStats, type TraceEvent } from '../../src/index.js';
import { serialPipeline } from '../../src/api/operators.js';
import { recordsOfTrace, validatePath } from '../../src/api/testing.js';
import type { MoveName } from '../../src/engine/grid/Task.js';
import type { PathMove } from '../../src/engine/schedules/PathRecord.js';
import { schedules } from '../support/arbitraryRuns.js';
import { randomPipeline } from '../support/randomPipeline.js';
import { ranOf, tasksAtOnce } from '../support/tasksAtOnce.js';
import { model } from '../e2e/support.js';

let disk: string;
beforeAll(() => {
  disk = mkdtempSync(join(tmpdir(), 'spillway-gpu-paths-'));
});
afterAll(() => {
  rmSync(disk, { recursive: true });
});

test('the path of any rows, schedule, composition and placement is valid, no tier is above its cap', async () => {
  const given = fc.record({
    rows: fc.array(
      fc.record({ promptTokens: fc.integer({ min: 1, max: 24 }), maxNewTokens: fc.integer({ min: 1, max: 5 }) }),
      { minLength: 1, maxLength: 6 },
    ),
    batchSize: fc.integer({ min: 1, max: 4 }),
    batches: fc.integer({ min: 1, max: 3 }),
    tokensPerSquare: fc.integer({ min: 4, max: 24 }),
    weights: fc.constantFrom(
      { gpu: 1, cpu: 0, disk: 0 },
      { gpu: 0.5, cpu: 0.5, disk: 0 },
      { gpu: 0.3, cpu: 0.3, disk: 0.4 },
      { gpu: 0, cpu: 0, disk: 1 },
    ),
    // Where some of it is in memory the processor attends to that, on a queue of its own.
    cache: fc.constantFrom({ gpu: 1, cpu: 0, disk: 0 }, { gpu: 0.5, cpu: 0.5, disk: 0 }, { gpu: 0, cpu: 1, disk: 0 }),
    activations: fc.constantFrom(
      { gpu: 1, cpu: 0, disk: 0 },
      { gpu: 0, cpu: 1, disk: 0 },
      { gpu: 0, cpu: 0.5, disk: 0.5 },
      { gpu: 0.5, cpu: 0.25, disk: 0.25 },
    ),
    schedule: schedules,
    composition: fc.nat(),
    aheads: fc.record({ weights: fc.nat(2), cache: fc.nat(2), activations: fc.nat(2) }),
    window: fc.integer({ min: 1, max: 10 }),
  });
  await fc.assert(
    fc.asyncProperty(given, async ({ rows, schedule, composition, aheads, window, ...options }) => {
      const trace: TraceEvent[] = [];
      let stats: RunStats | undefined;
      const engine = await Engine.open({ model: model('llama-Q4_1.gguf'), gpuMemory: '16MiB', disk, ...options });
      const { layers, hiddenSize } = engine.source.decoder;
      const input = rows.map(({ promptTokens, maxNewTokens }, id) => ({
        id,
        tokens: Array.from({ length: promptTokens }, (_, at) => (id * 31 + at * 17 + 3) % 250),
        maxNewTokens,
      }));
      for await (const row of engine.generate(input, {
        ignoreEos: true,
        schedule,
        window,
        pipeline: randomPipeline(composition, aheads),
        onTrace: (event) => trace.push(event),
        onStats: (each) => (stats = each),
      }))
        expect(row.error).toBeUndefined();
      await engine.close();
      const admitted = rows.map(({ promptTokens, maxNewTokens }, row) => ({
        row,
        promptTokens,
        newTokens: maxNewTokens,
      }));
      const { records, usage } = recordsOfTrace(trace, admitted);
      // What a layer's weights are on each link must be the same in every pass: that of the first is what the others
      // have to have.
      const weights = new Map<string, PathMove>();
      for (const {
        task: { name, layer, from = '', to = '', bytes = 0 },
      } of records)
        if (name === 'load_weight') weights.set(`${layer} ${from}`, { from, to, bytes });
      const hidden = (name: MoveName, tokens: number): PathMove[][] =>
        name === 'load_activation'
          ? [[{ from: 'cpu', to: 'gpu', bytes: tokens * hiddenSize * 4 }]]
          : [[{ from: 'gpu', to: 'cpu', bytes: tokens * hiddenSize * 4 }]];
      const staying = Math.round(options.batches * options.activations.gpu);
      validatePath(
        {
          layers,
          slots: options.batches,
          rowsPerSlot: options.batchSize,
          tokensPerSquare: Math.max(options.tokensPerSquare, options.batchSize),
        },
        admitted,
        records,
        new Set(),
        {
          moves: (name, square) => {
            if (name === 'load_weight')
              return ['cpu', 'disk']
                .flatMap((from) => weights.get(`${square.layer} ${from}`) ?? [])
                .map((move) => [move]);
            const between =
              (name === 'load_activation' && square.layer > 0) ||
              (name === 'store_activation' && square.layer < layers - 1);
            return square.batch.slot >= staying && between
              ? hidden(
                  name,
                  square.batch.rows.reduce((sum, { tokens }) => sum + tokens, 0),
                )
              : [];
          },
          usage,
          capacityBytes: Object.fromEntries(
            Object.entries(stats?.memory ?? {}).map(([tier, { capacityBytes }]) => [tier, capacityBytes]),
          ),
        },
      );
      const streams = options.weights.gpu < 1;
      expect([...weights.keys()].filter((key) => key.endsWith('cpu')).length).toBe(streams ? layers : 0);
      expect([...weights.keys()].filter((key) => key.endsWith('disk')).length).toBe(
        options.weights.disk > 0 ? layers : 0,
      );
      expect(usage.some(({ tier, usedBytes }) => tier === 'gpu' && usedBytes > 0)).toBe(true);
    }),
    { numRuns: 12 },
  );
});

test.each([
  ['weights on the GPU', {}],
  ['weights in memory and on disk', { weights: { gpu: 0.3, cpu: 0.3, disk: 0.4 } }],
  ['a cache that the processor attends to', { cache: { gpu: 0.5, cpu: 0.5, disk: 0 } }],
  ['activations in memory and on disk', { activations: { gpu: 0, cpu: 0.5, disk: 0.5 } }],
])('with overlap off never two tasks run at once: %s', async (_, placement) => {
  const trace: TraceEvent[] = [];
  await using engine = await Engine.open({
    model: model('llama-Q4_1.gguf'),
    gpuMemory: '16MiB',
    disk,
    batchSize: 2,
    batches: 2,
    tokensPerSquare: 12,
    ...placement,
  });
  const rows = Array.from({ length: 5 }, (__, id) => ({
    id,
    tokens: Array.from({ length: 3 + 5 * id }, (___, at) => (id * 31 + at * 17 + 3) % 250),
    maxNewTokens: 4,
  }));
  for await (const row of engine.generate(rows, { pipeline: serialPipeline, onTrace: (event) => trace.push(event) }))
    expect(row.error).toBeUndefined();
  const tasks = ranOf(trace);
  expect(tasks.length).toBeGreaterThan(50);
  expect(tasksAtOnce(tasks)).toEqual([]);
});
