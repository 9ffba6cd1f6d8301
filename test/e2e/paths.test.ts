import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import { Engine, type Row, type RunStats, type TraceEvent } from '../../src/index.js';
import { closedForm } from '../../src/api/plan.js';
import { serialPipeline } from '../../src/api/operators.js';
import { diagonalBlock, rowByRow, zigZagBlock } from '../../src/api/schedules.js';
import { recordsOfTrace, validatePath } from '../../src/api/testing.js';
import { schedules } from '../support/arbitraryRuns.js';
import { randomPipeline } from '../support/randomPipeline.js';
import { ranOf, tasksAtOnce } from '../support/tasksAtOnce.js';

const MODEL = fileURLToPath(new URL('../fixtures/models/llama-Q4_1.gguf', import.meta.url));
let disk: string;
beforeAll(() => {
  disk = mkdtempSync(join(tmpdir(), 'spillway-paths-'));
});
afterAll(() => {
  rmSync(disk, { recursive: true });
});

interface Traced {
  readonly trace: TraceEvent[];
  readonly stats: RunStats;
  readonly layers: number;
}

async function traced(rows: readonly Row[], engineOptions: object, run: object): Promise<Traced> {
  await using engine = await Engine.open({ model: MODEL, disk, ...engineOptions });
  const trace: TraceEvent[] = [];
  let stats: RunStats | undefined;
  let done = 0;
  for await (const row of engine.generate(rows, {
    ignoreEos: true,
    ...run,
    onTrace: (event) => trace.push(event),
    onStats: (each) => (stats = each),
  })) {
    expect(row.error).toBeUndefined();
    done++;
  }
  expect(done).toBe(rows.length);
  if (!stats) throw new Error('no statistics came');
  return { trace, stats, layers: engine.source.decoder.layers };
}

describe('on the native device', () => {
  test('the path of any rows, schedule, composition and share of weights is valid', async () => {
    const given = fc.record({
      rows: fc.array(
        fc.record({ promptTokens: fc.integer({ min: 1, max: 24 }), maxNewTokens: fc.integer({ min: 1, max: 6 }) }),
        { minLength: 1, maxLength: 10 },
      ),
      batchSize: fc.integer({ min: 1, max: 4 }),
      batches: fc.integer({ min: 1, max: 3 }),
      tokensPerSquare: fc.integer({ min: 4, max: 24 }),
      resident: fc.constantFrom(0, 0.3, 1),
      schedule: schedules,
      composition: fc.nat(),
      aheads: fc.record({ weights: fc.nat(2), cache: fc.nat(2), activations: fc.nat(2) }),
      window: fc.integer({ min: 1, max: 10 }),
    });
    await fc.assert(
      fc.asyncProperty(
        given,
        async ({ rows, batchSize, batches, tokensPerSquare, resident, schedule, composition, aheads, window }) => {
          const input = rows.map(({ promptTokens, maxNewTokens }, id) => ({
            id,
            tokens: Array.from({ length: promptTokens }, (_, at) => (id * 31 + at * 17 + 3) % 250),
            maxNewTokens,
          }));
          const { trace, stats, layers } = await traced(
            input,
            { batchSize, batches, tokensPerSquare, weights: { cpu: resident, disk: 1 - resident } },
            { schedule, window, pipeline: randomPipeline(composition, aheads) },
          );
          const admitted = rows.map(({ promptTokens, maxNewTokens }, row) => ({
            row,
            promptTokens,
            newTokens: maxNewTokens,
          }));
          const { records, usage } = recordsOfTrace(trace, admitted);
          const bytes = new Map(
            records.flatMap(({ task }) =>
              task.name === 'load_weight' ? [[task.layer, task.bytes ?? 0] as const] : [],
            ),
          );
          if (resident === 0) expect(bytes.size).toBe(layers);
          validatePath(
            { layers, slots: batches, rowsPerSlot: batchSize, tokensPerSquare: Math.max(tokensPerSquare, batchSize) },
            admitted,
            records,
            new Set(),
            {
              moves: (name, { layer }) =>
                name === 'load_weight' && bytes.has(layer)
                  ? [[{ from: 'disk', to: 'cpu', bytes: bytes.get(layer) ?? 0 }]]
                  : [],
              usage,
              capacityBytes: Object.fromEntries(
                Object.entries(stats.memory).map(([tier, { capacityBytes }]) => [tier, capacityBytes]),
              ),
            },
          );
        },
      ),
      { numRuns: 25 },
    );
  });

  test('weights are read as often as the closed forms say', async () => {
    const shape = { layers: 0, batches: 4, rowsPerBatch: 2, slots: 2, promptTokens: 6, newTokens: 4 };
    const rows = Array.from({ length: 8 }, (_, id) => ({
      id,
      tokens: Array.from({ length: 6 }, (__, at) => (id * 31 + at * 17 + 3) % 250),
      maxNewTokens: 4,
    }));
    for (const [name, schedule] of [
      ['row', rowByRow()],
      ['zigzag', zigZagBlock()],
      ['diagonal', diagonalBlock()],
    ] as const) {
      const { trace, stats } = await traced(
        rows,
        { batchSize: 2, batches: 2, tokensPerSquare: 12, weights: { cpu: 0, disk: 1 } },
        { schedule },
      );
      const once = new Map(
        trace.flatMap(({ name: task, args }) =>
          task.startsWith('load_weight ') ? [[args['layer'], Number(args['bytes'])] as const] : [],
        ),
      );
      const perPass = [...once.values()].reduce((sum, bytes) => sum + bytes, 0);
      expect(stats.bytes.weights['disk→cpu']).toBe(closedForm(name, shape).passes * perPass);
    }
  });

  test.each([
    ['weights in memory', { weights: { cpu: 1, disk: 0 } }],
    ['weights on disk', { weights: { cpu: 0, disk: 1 } }],
    ['a part of the cache on disk', { weights: { cpu: 0.5, disk: 0.5 }, cache: { cpu: 0.5, disk: 0.5 } }],
    ['activations on disk', { activations: { cpu: 0, disk: 1 } }],
  ])('with overlap off never two tasks run at once: %s', async (_, placement) => {
    const rows = Array.from({ length: 9 }, (__, id) => ({
      id,
      tokens: Array.from({ length: 3 + 5 * id }, (___, at) => (id * 31 + at * 17 + 3) % 250),
      maxNewTokens: 5,
    }));
    const { trace } = await traced(
      rows,
      { batchSize: 2, batches: 2, tokensPerSquare: 12, rowTokens: 64, ...placement },
      { schedule: zigZagBlock(), pipeline: serialPipeline },
    );
    const tasks = ranOf(trace);
    expect(tasks.length).toBeGreaterThan(50);
    expect(tasksAtOnce(tasks)).toEqual([]);
  });
});
