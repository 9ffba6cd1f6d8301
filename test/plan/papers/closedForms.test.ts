import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { TaskEvent } from '../../../src/engine/grid/Task.js';
import type { Tier } from '../../../src/engine/grid/Tier.js';
import type { Placement } from '../../../src/engine/memory/movement.js';
import { closedForm, closedFormBytes, type UniformRows } from '../../../src/plan/papers/closedForms.js';
import { diagonalBlock, rowByRow, zigZagBlock } from '../../../src/engine/schedules/blockSchedules.js';
import { defaultPipeline } from '../../../src/operators/defaultPipeline.js';
import { runAndJudge } from '../../support/judgedRun.js';
import { SIMULATED_BYTES } from '../../support/simulatedRun.js';

const SCHEDULES = { row: rowByRow(), zigzag: zigZagBlock(), diagonal: diagonalBlock() };
type ScheduleName = keyof typeof SCHEDULES;

async function counted(
  name: ScheduleName,
  shape: UniformRows,
  placement: Placement,
  computeTier: 'cpu' | 'gpu',
): Promise<(what: string, from: Tier, to: Tier) => number> {
  const rows = shape.batches * shape.rowsPerBatch;
  const { events } = await runAndJudge({
    grid: {
      layers: shape.layers,
      slots: shape.slots,
      rowsPerSlot: shape.rowsPerBatch,
      tokensPerSquare: shape.rowsPerBatch * shape.promptTokens,
    },
    rows: Array.from({ length: rows }, () => ({ promptTokens: shape.promptTokens, newTokens: shape.newTokens })),
    schedule: SCHEDULES[name],
    placement,
    // Room for all rows at once on every tier, however their pages are rounded.
    pages: 10 * rows * (shape.promptTokens + shape.newTokens + 4),
    pageTokens: 1,
    window: 8,
    ahead: rows,
    aheads: { weights: 1, cache: 1, activations: 1 },
    pipeline: defaultPipeline,
    simulation: { computeTier, burst: 8 },
  });
  return (what, from, to) =>
    events.reduce(
      (sum: number, { task }: TaskEvent) =>
        sum + (task.name === what && task.from === from && task.to === to ? task.bytes : 0),
      0,
    );
}

const shapes: fc.Arbitrary<UniformRows> = fc
  .record({
    layers: fc.integer({ min: 1, max: 4 }),
    blocks: fc.integer({ min: 1, max: 2 }),
    rowsPerBatch: fc.integer({ min: 1, max: 3 }),
    slots: fc.integer({ min: 1, max: 3 }),
    promptTokens: fc.integer({ min: 1, max: 20 }),
    newTokens: fc.integer({ min: 1, max: 8 }),
  })
  .map(({ blocks, ...shape }) => ({ ...shape, batches: blocks * shape.slots }));

describe.each(Object.keys(SCHEDULES) as ScheduleName[])('the closed form of %s', (name) => {
  test('is what a run moves over every link, byte for byte where shares are whole', async () => {
    const shares = { gpu: 0, cpu: 0.5, disk: 0.5 };
    await fc.assert(
      fc.asyncProperty(shapes, async (shape) => {
        const form = closedForm(name, shape);
        const bytes = await counted(name, shape, { weights: shares, cache: shares, activations: shares }, 'cpu');
        const half = closedFormBytes(form, shape.layers, {
          bytes: SIMULATED_BYTES,
          weights: 0.5,
          cache: 0.5,
          activations: 0.5,
        });
        expect(bytes('load_weight', 'disk', 'cpu')).toBe(half.weights);
        expect(bytes('load_cache', 'disk', 'cpu')).toBe(half.cacheLoaded);
        expect(bytes('store_cache', 'cpu', 'disk')).toBe(half.cacheStored);
        expect(bytes('load_activation', 'disk', 'cpu')).toBe(half.activationsLoaded);
        expect(bytes('store_activation', 'cpu', 'disk')).toBe(half.activationsStored);
      }),
      { numRuns: 40 },
    );
  });

  test('is within 1% of what a run moves between three tiers by any shares', async () => {
    const parts = fc.tuple(
      fc.integer({ min: 1, max: 9 }),
      fc.integer({ min: 1, max: 9 }),
      fc.integer({ min: 1, max: 9 }),
    );
    await fc.assert(
      fc.asyncProperty(shapes, parts, async (shape, [gpu, cpu, disk]) => {
        const sum = gpu + cpu + disk;
        const shares = { gpu: gpu / sum, cpu: cpu / sum, disk: disk / sum };
        const bytes = await counted(name, shape, { weights: shares, cache: shares, activations: shares }, 'gpu');
        const link = (share: number) =>
          closedFormBytes(closedForm(name, shape), shape.layers, {
            bytes: SIMULATED_BYTES,
            weights: share,
            cache: share,
            activations: share,
          });
        const close = (found: number, expected: number, tasks: number): void => {
          // A task's bytes are whole: half a byte of rounding each.
          expect(Math.abs(found - expected)).toBeLessThanOrEqual(0.01 * expected + tasks / 2);
        };
        const squares = closedForm(name, shape).passes * shape.layers * shape.slots;
        close(bytes('load_weight', 'disk', 'cpu'), link(shares.disk).weights, squares);
        close(bytes('load_weight', 'cpu', 'gpu'), link(shares.disk + shares.cpu).weights, 2 * squares);
        close(bytes('load_cache', 'cpu', 'gpu'), link(shares.disk + shares.cpu).cacheLoaded, 2 * squares);
        close(bytes('store_cache', 'cpu', 'disk'), link(shares.disk).cacheStored, squares);
        close(bytes('store_activation', 'gpu', 'cpu'), link(shares.disk + shares.cpu).activationsStored, 2 * squares);
        close(bytes('load_activation', 'disk', 'cpu'), link(shares.disk).activationsLoaded, squares);
      }),
      { numRuns: 25 },
    );
  });
});

describe('closedForm', () => {
  test('of whole pages: what a row has begun comes, what it goes on in goes back', () => {
    const shape = { layers: 3, batches: 1, rowsPerBatch: 2, slots: 1, promptTokens: 7, newTokens: 4, pageTokens: 4 };
    const form = closedForm('zigzag', shape);
    // Steps that see 7, 8 and 9 tokens; the prompt's two pages, then one a step.
    expect(form.cacheTokensLoaded).toBe(6 * (8 + 8 + 12));
    expect(form.cacheTokensStored).toBe(6 * (8 + 3 * 4));
    expect(closedForm('zigzag', { ...shape, pageTokens: 1 })).toEqual(
      closedForm('zigzag', { layers: 3, batches: 1, rowsPerBatch: 2, slots: 1, promptTokens: 7, newTokens: 4 }),
    );
  });

  test("is FlexGen's: s·n + n(n - 1)/2 tokens of cache a row and layer, loads and stores together", () => {
    fc.assert(
      fc.property(shapes, (shape) => {
        const { cacheTokensLoaded, cacheTokensStored } = closedForm('zigzag', shape);
        const { promptTokens: s, newTokens: n, layers, batches, rowsPerBatch } = shape;
        expect(cacheTokensLoaded + cacheTokensStored).toBe(
          layers * batches * rowsPerBatch * (s * n + (n * (n - 1)) / 2),
        );
      }),
    );
  });

  test('a block reads weights once a pass for all of its batches, row by row once for each', () => {
    const shape = { layers: 2, batches: 6, rowsPerBatch: 2, slots: 3, promptTokens: 4, newTokens: 5 };
    expect([
      closedForm('row', shape).passes,
      closedForm('zigzag', shape).passes,
      closedForm('diagonal', shape).passes,
    ]).toEqual([30, 10, 10]);
  });
});
