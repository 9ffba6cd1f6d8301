import { statSync } from 'node:fs';
import { getHeapStatistics } from 'node:v8';
import { expect } from '@jest/globals';
import { ModelFileError } from '../../../src/errors/ModelFileError.js';
import type { TensorInfo } from '../../../src/model/ModelSource.js';
import { WEIGHT_TYPES } from '../../../src/model/weightTypes.js';

const MOST_SECONDS = 1;
const MOST_BYTES = 16 * 2 ** 20;

/** Bytes of the heap and of buffers outside it, garbage that is not collected yet included. */
function memoryBytes(): number {
  const { used_heap_size: heap, external_memory: external } = getHeapStatistics();
  return heap + external;
}

/**
 * Seconds of processor time since `start`, a result of process.cpuUsage(): they do not grow because the machine is
 * busy.
 */
export function cpuSeconds(start: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(start);
  return (user + system) / 1e6;
}

/**
 * Reads a file that may be anything: it must come to an end soon, with a model or a ModelFileError, and with little
 * memory. Memory is measured right after, before a collection is likely; what was asked for and never touched counts
 * too.
 * @returns the model, or the error
 */
export async function expectBounded<T>(read: () => Promise<T>): Promise<{ model: T } | { error: ModelFileError }> {
  const look = async () => {
    const before = memoryBytes();
    const start = process.cpuUsage();
    const outcome = await read().then(
      (model) => ({ model }),
      (error: unknown) => ({ error }),
    );
    return { outcome, seconds: cpuSeconds(start), grown: memoryBytes() - before };
  };
  let { outcome, seconds, grown } = await look();
  // A collection of all that other suites have left in the process may fall into one.
  if (seconds > MOST_SECONDS) ({ outcome, seconds, grown } = await look());
  if ('error' in outcome && !(outcome.error instanceof ModelFileError)) throw outcome.error;
  if (seconds > MOST_SECONDS || grown > MOST_BYTES) throw new Error(`reading took ${seconds} s and ${grown} bytes`);
  return 'error' in outcome ? { error: outcome.error as ModelFileError } : outcome;
}

/**
 * What holds of tensors that a reader lets through, whatever the file says: in their file, of the size of their type
 * and shape, apart.
 */
export function expectSound(source: { tensors: readonly TensorInfo[]; files: readonly string[] }): void {
  const ends = new Map<number, number>();
  expect(new Set(source.tensors.map((tensor) => tensor.name)).size).toBe(source.tensors.length);
  for (const { type, shape, file, offset, bytes } of [...source.tensors].sort(
    (a, b) => a.offset - b.offset || a.bytes - b.bytes,
  )) {
    const block = type === 'F8_E4M3' ? { elements: 1, bytes: 1 } : WEIGHT_TYPES[type];
    expect(bytes * block.elements).toBe(shape.reduce((product, size) => product * size, 1) * block.bytes);
    expect(offset).toBeGreaterThanOrEqual(ends.get(file) ?? 0);
    ends.set(file, offset + bytes);
  }
  for (const [file, end] of ends) expect(end).toBeLessThanOrEqual(statSync(source.files[file] ?? '').size);
}
