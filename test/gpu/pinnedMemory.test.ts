import './support/emulatedAddon.js';
import { afterAll, beforeAll, expect, jest, test } from '@jest/globals';
import { loadAddon } from '../../src/bindings/loadAddon.js';
import { layOutMemory, type MemoryLayout } from '../../src/engine/open/layOutMemory.js';
import { planEngine } from '../../src/engine/open/planEngine.js';
import { requestedOptions } from '../../src/engine/open/validateOptions.js';
import type { EngineOptions } from '../../src/EngineOptions.js';
import { readModel } from '../../src/model/readModel.js';
import { typicalProcessBytes } from '../../src/plan/reserves.js';
import { model } from '../e2e/support.js';

const MIB = 2 ** 20;

async function laidOut(options: Partial<EngineOptions>): Promise<MemoryLayout> {
  const addon = loadAddon();
  const machine = addon.machine();
  const path = model('llama');
  const source = await readModel(path);
  const requested = requestedOptions({ model: path, gpuMemory: '16MiB', ...options }, machine);
  const plan = await planEngine(source, requested, machine, undefined);
  return layOutMemory(addon, source, requested, plan, machine, { expected: undefined, rowTokens: undefined });
}

// The least cap that works depends on what the process holds, and this one holds more from line to line.
beforeAll(() => {
  jest.spyOn(process.memoryUsage, 'rss').mockReturnValue(typicalProcessBytes(256));
});
afterAll(() => {
  jest.restoreAllMocks();
});

test('weights that stream from disk have 256 MiB pinned for them, or what a small cap leaves', async () => {
  const streaming = { weights: { gpu: 0.3, cpu: 0.3, disk: 0.4 } };
  const large = await laidOut({ ...streaming, cpuMemory: '8GiB' });
  expect(large.gpu?.options.pinnedBytes).toBe(256 * MIB);
  expect(large.runtime.gpu).toEqual(large.gpu?.options);
  const small = await laidOut({ ...streaming, cpuMemory: '1GiB' });
  expect(small.gpu?.options.pinnedBytes).toBe(64 * MIB);
  expect(large.host.reservedBytes - small.host.reservedBytes).toBe((256 - 64) * MIB);
  // A byte less than the least that works is refused, and the least has nothing more pinned.
  const needed: number = await laidOut({ ...streaming, cpuMemory: '1MiB' }).then(
    () => NaN,
    (error: unknown) => (error as { neededBytes: number }).neededBytes,
  );
  expect((await laidOut({ ...streaming, cpuMemory: needed })).gpu?.options.pinnedBytes).toBe(32 * MIB);
  await expect(laidOut({ ...streaming, cpuMemory: needed - 1 })).rejects.toThrow('cpu memory is capped');
});

test('weights that do not have 32 MiB, with all else that crosses the link', async () => {
  for (const given of [{}, { weights: { gpu: 1, cpu: 0, disk: 0 } }, { weights: { gpu: 0.5, cpu: 0.5, disk: 0 } }])
    expect((await laidOut({ ...given, cpuMemory: '8GiB' })).runtime.gpu?.pinnedBytes).toBe(32 * MIB);
});
