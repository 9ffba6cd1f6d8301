import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { SimulatedDevice, type SimulationOptions } from '../../../src/engine/execution/SimulatedDevice.js';
import { QUEUE_NAMES, type QueueName, type Task, type TaskEvent } from '../../../src/engine/grid/Task.js';

const task = (queue: QueueName, layer: number): Task => ({
  run: 1,
  name: 'load_weight',
  queue,
  batch: { pass: 0, slot: 0, rows: [] },
  layer,
  bytes: 0,
});

/** Plays a list of tasks, each on a queue, taking a time, waiting for some of the tasks before it. */
async function play(
  list: readonly { queue: QueueName; seconds: number; after: readonly number[] }[],
  options: SimulationOptions = {},
): Promise<{ events: TaskEvent[]; order: number[]; device: SimulatedDevice }> {
  const device = new SimulatedDevice({ duration: ({ layer }) => list[layer]?.seconds ?? 0, ...options });
  const order: number[] = [];
  device.completed$.subscribe((burst) => order.push(...burst.map(({ event }) => event.task.layer)));
  const events: TaskEvent[] = [];
  list.forEach(({ queue, after }, i) =>
    events.push(
      device.submit(
        task(queue, i),
        after.flatMap((index) => events.slice(index, index + 1)),
      ),
    ),
  );
  expect(events.every(({ timing }) => timing === undefined)).toBe(true);
  await device.close();
  return { events, order, device };
}

const list = fc
  .array(
    fc.record({
      queue: fc.constantFrom(...QUEUE_NAMES),
      seconds: fc.nat(9),
      after: fc.array(fc.nat(30), { maxLength: 3 }),
    }),
    { minLength: 1, maxLength: 25 },
  )
  .map((tasks) => tasks.map((each, i) => ({ ...each, after: each.after.filter((index) => index < i) })));

describe('a simulated GPU to which pages come before weights', () => {
  const move = (name: Task['name'], layer: number): Task => ({ ...task('host-to-device', layer), name });
  const WEIGHTS = 32;

  /** Weights of 32 s from the beginning; pages, each loaded once a computation has made room, some asked for then. */
  async function pages(
    loads: readonly { readonly room: number; readonly seconds: number; readonly late: boolean }[],
    weights = WEIGHTS,
  ): Promise<{ weights: TaskEvent; pages: TaskEvent[] }> {
    const device = new SimulatedDevice({
      computeTier: 'gpu',
      pagesFirst: true,
      duration: ({ name, layer }) =>
        name === 'load_weight' ? weights : (loads[layer]?.[name === 'compute' ? 'room' : 'seconds'] ?? 0),
    });
    const events: TaskEvent[] = [];
    const load = (layer: number, after: TaskEvent): void => {
      events[layer] = device.submit(move('load_cache', layer), [after]);
    };
    device.completed$.subscribe((burst) => {
      for (const { event } of burst)
        if (event.task.name === 'compute' && loads[event.task.layer]?.late) load(event.task.layer, event);
    });
    const first = device.submit(move('load_weight', 0), []);
    loads.forEach(({ late }, layer) => {
      const room = device.submit({ ...task('gpu-compute', layer), name: 'compute' }, []);
      if (!late) load(layer, room);
    });
    await device.close();
    return { weights: first, pages: events };
  }

  test('what weights have left waits while pages come, and goes on behind them', async () => {
    const found = await pages([{ room: 4, seconds: 6, late: false }]);
    expect(found.pages[0]?.timing).toEqual({ start: 4, end: 10 });
    expect(found.weights.timing).toEqual({ start: 0, end: 38 });
  });

  test('pages that are asked for in the middle of a piece wait for its end', async () => {
    const found = await pages([{ room: 4.5, seconds: 6, late: true }]);
    expect(found.pages[0]?.timing).toEqual({ start: 5, end: 11 });
    expect(found.weights.timing).toEqual({ start: 0, end: 38 });
  });

  test('whatever comes, the link rests for nobody, and no load waits for more than a piece of the weights', async () => {
    const loads = fc.array(fc.record({ room: fc.nat(8), seconds: fc.nat(8), late: fc.boolean() }), { maxLength: 8 });
    await fc.assert(
      fc.asyncProperty(loads, async (given) => {
        const [found, alone] = [await pages(given), await pages(given, 0)];
        const moved = given.reduce((sum, { seconds }) => sum + seconds, WEIGHTS);
        const end = Math.max(found.weights.timing?.end ?? NaN, ...found.pages.map((each) => each.timing?.end ?? NaN));
        const idle = Math.max(0, ...alone.pages.map((each) => each.timing?.end ?? NaN));
        expect(end).toBeGreaterThan(moved - 1e-6);
        expect(end).toBeLessThan(Math.max(moved, idle) + given.length + 1e-6);
        found.pages.forEach((each, i) => {
          expect(each.timing?.end ?? NaN).toBeLessThan((alone.pages[i]?.timing?.end ?? NaN) + given.length + 1e-6);
        });
      }),
    );
  });
});

describe('a simulated GPU beside which the processor attends', () => {
  test('computes what may begin while what was submitted before waits for attention', async () => {
    const [project, attend, finish] = ['gpu-compute', 'cpu-compute', 'gpu-compute'] as const;
    const { events } = await play(
      [
        { queue: project, seconds: 1, after: [] },
        { queue: attend, seconds: 5, after: [0] },
        { queue: finish, seconds: 2, after: [1] },
        { queue: project, seconds: 1, after: [] },
        { queue: attend, seconds: 5, after: [3] },
        { queue: finish, seconds: 2, after: [4] },
        { queue: project, seconds: 4, after: [2] },
      ],
      { computeTier: 'gpu', hostAttends: true },
    );
    expect(events.map(({ timing }) => timing)).toEqual([
      { start: 0, end: 1 },
      { start: 1, end: 6 },
      { start: 6, end: 8 },
      { start: 1, end: 2 },
      { start: 6, end: 11 },
      { start: 11, end: 13 },
      // No gap before the last one holds it.
      { start: 13, end: 17 },
    ]);
  });

  test('does one task of a queue at a time, none before what it waits for', async () => {
    await fc.assert(
      fc.asyncProperty(list, async (tasks) => {
        const { events } = await play(tasks, { computeTier: 'gpu', hostAttends: true });
        const times = events.map(({ timing }) => timing ?? { start: NaN, end: NaN });
        tasks.forEach(({ queue, seconds, after }, i) => {
          const { start, end } = times[i] ?? { start: NaN, end: NaN };
          expect(end).toBe(start + seconds);
          for (const index of after) expect(start).toBeGreaterThanOrEqual(times[index]?.end ?? NaN);
          tasks.forEach((other, j) => {
            const { start: from, end: to } = times[j] ?? { start: NaN, end: NaN };
            if (j === i || other.queue !== queue || seconds === 0 || other.seconds === 0) return;
            expect(end <= from || to <= start).toBe(true);
          });
        });
      }),
    );
  });
});

describe('SimulatedDevice', () => {
  test('queues are FIFO, tasks wait for their events, and nothing waits longer than it has to', async () => {
    await fc.assert(
      fc.asyncProperty(list, async (tasks) => {
        const { events, order, device } = await play(tasks);
        const ends: number[] = [];
        const freeAt = new Map<QueueName, number>();
        tasks.forEach(({ queue, seconds, after }, i) => {
          const start = Math.max(freeAt.get(queue) ?? 0, ...after.map((index) => ends[index] ?? 0));
          ends.push(start + seconds);
          freeAt.set(queue, start + seconds);
          expect(events[i]?.timing).toEqual({ start, end: start + seconds });
        });
        expect(order.map((index) => ends[index])).toEqual([...ends].sort((a, b) => a - b));
        expect(device.now).toBe(Math.max(...ends));
      }),
    );
  });

  test('the time is never below the busiest queue, nor above the sum of everything', async () => {
    await fc.assert(
      fc.asyncProperty(list, async (tasks) => {
        const { device } = await play(tasks);
        const busy = QUEUE_NAMES.map((queue) =>
          tasks.filter((each) => each.queue === queue).reduce((sum, { seconds }) => sum + seconds, 0),
        );
        expect(device.now).toBeGreaterThanOrEqual(Math.max(...busy));
        expect(device.now).toBeLessThanOrEqual(busy.reduce((a, b) => a + b));
      }),
    );
  });

  test('what waits for a failed task fails with it; the rest goes on', async () => {
    const { events } = await play(
      [
        { queue: 'disk-read', seconds: 1, after: [] },
        { queue: 'cpu-compute', seconds: 1, after: [0] },
        { queue: 'disk-read', seconds: 1, after: [] },
      ],
      { fail: ({ layer }) => (layer === 0 ? 'no such file' : undefined) },
    );
    expect(events.map(({ error }) => error?.message)).toEqual([
      'load_weight pass 0 layer 0 slot 0: no such file',
      'load_weight pass 0 layer 1 slot 0: load_weight pass 0 layer 0 slot 0 failed',
      undefined,
    ]);
  });

  test("a cancelled run's later tasks fail, and those of other runs do not", async () => {
    const device = new SimulatedDevice();
    const before = device.submit(task('disk-read', 0), []);
    device.cancelRun(1);
    const after = device.submit(task('disk-read', 1), []);
    const other = device.submit({ ...task('disk-read', 2), run: 2 }, []);
    await device.close();
    expect([before, after, other].map(({ error }) => error !== undefined)).toEqual([false, true, false]);
  });

  test('refuses events of another device', () => {
    const foreign = new SimulatedDevice().submit(task('disk-read', 0), []);
    expect(() => new SimulatedDevice().submit(task('disk-read', 1), [{ ...foreign }])).toThrow(/another device/);
  });
});
