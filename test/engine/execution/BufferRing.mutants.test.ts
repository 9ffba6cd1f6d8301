import { describe, expect, test } from '@jest/globals';
import { SimulatedDevice } from '../../../src/engine/execution/SimulatedDevice.js';
import type { Task, TaskEvent } from '../../../src/engine/grid/Task.js';
import { BufferRing } from '../../../src/engine/execution/BufferRing.js';
import { randomNumbers } from '../../support/randomSchedule.js';

interface Load {
  readonly buffer: number;
  readonly layer: number;
  readonly event: TaskEvent;
  readonly readers: TaskEvent[];
}

const task = (name: 'load_weight' | 'compute', layer: number): Task => ({
  run: 1,
  name,
  queue: name === 'compute' ? 'cpu-compute' : 'disk-read',
  batch: { pass: 0, slot: 0, rows: [] },
  layer,
  bytes: 0,
});

/**
 * Layers go through a ring's buffers, each read by some tasks, on a device that keeps no order but that of events;
 * turns of the event loop pass in between.
 */
async function play(ring: BufferRing, seed: number): Promise<Load[]> {
  const random = randomNumbers(seed);
  const below = (count: number): number => Math.floor(random() * count);
  const device = new SimulatedDevice({ unordered: true, duration: () => 1 + below(20), burst: 1 + below(4) });
  const loads: Load[] = [];
  for (let step = 0; step < 30; step++) {
    const layer = step % 5;
    const { buffer, after } = ring.take(layer);
    const event = device.submit(task('load_weight', layer), after);
    ring.filledBy(buffer, event);
    const load: Load = { buffer, layer, event, readers: [] };
    loads.push(load);
    for (let reader = below(4); reader >= 0; reader--) {
      const found = ring.find(layer);
      const reading = device.submit(task('compute', layer), found?.load ? [found.load] : []);
      if (found) ring.usedBy(found.buffer, reading);
      load.readers.push(reading);
    }
    for (let turn = below(6); turn > 0; turn--) await new Promise((resolve) => setImmediate(resolve));
  }
  await device.close();
  return loads;
}

/**
 * Loads that overwrite a buffer while something reads it, or while it is being filled, and readers that come before
 * what they read.
 */
function overlaps(loads: readonly Load[]): number {
  let count = 0;
  const start = ({ timing }: TaskEvent): number => timing?.start ?? NaN;
  const end = ({ timing }: TaskEvent): number => timing?.end ?? NaN;
  loads.forEach(({ buffer, event, readers }, index) => {
    if (readers.some((reader) => start(reader) < end(event))) count++;
    const next = loads.slice(index + 1).find((later) => later.buffer === buffer);
    if (next && [event, ...readers].some((user) => start(next.event) < end(user))) count++;
  });
  return count;
}

class ForgetsReaders extends BufferRing {
  override usedBy(): void {
    // Nothing is noted.
  }
}

class ForgetsLoads extends BufferRing {
  override filledBy(): void {
    // Nothing is noted.
  }
}

class WaitsForNothing extends BufferRing {
  override take(layer: number): ReturnType<BufferRing['take']> {
    return { ...super.take(layer), after: [] };
  }
}

describe('BufferRing in time', () => {
  const seeds = Array.from({ length: 30 }, (_, seed) => seed);

  test('never overwrites what is in use, and nobody reads what has not come', async () => {
    for (const seed of seeds) expect(overlaps(await play(new BufferRing(1 + (seed % 3)), seed))).toBe(0);
  });

  test.each([ForgetsReaders, ForgetsLoads, WaitsForNothing])('and that would be noticed: %p', async (Mutant) => {
    let noticed = 0;
    for (const seed of seeds) noticed += overlaps(await play(new Mutant(1 + (seed % 3)), seed)) > 0 ? 1 : 0;
    expect(noticed).toBeGreaterThan(seeds.length / 2);
  });
});
