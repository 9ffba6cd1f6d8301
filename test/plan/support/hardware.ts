import { readFileSync } from 'node:fs';
import { parseHardware, type HardwareProfile } from '../../../src/plan/HardwareProfile.js';
import { parsePolicy, type Policy } from '../../../src/plan/Policy.js';

/** One of the package's machines. */
export function builtIn(name: string): HardwareProfile {
  return parseHardware(
    JSON.parse(readFileSync(new URL(`../../../hardware/${name}.json`, import.meta.url), 'utf8')),
    name,
  );
}

/** FlexGen's six percentages: weights, cache, activations on GPU and CPU; the rest is on disk. */
export function flexgenPolicy(
  batchSize: number,
  batches: number,
  percent: readonly number[],
  more: Partial<Policy> = {},
): Policy {
  const shares = (at: number): { gpu: number; cpu: number; disk: number } => {
    const [gpu, cpu] = [(percent[at] ?? 0) / 100, (percent[at + 1] ?? 0) / 100];
    return { gpu, cpu, disk: 1 - gpu - cpu };
  };
  return parsePolicy(
    { schedule: 'zigzag', batchSize, batches, weights: shares(0), cache: shares(2), activations: shares(4), ...more },
    'test',
  );
}

/** A machine without a GPU, two cores, a disk of 1 GB/s. */
export const CPU_MACHINE: HardwareProfile = parseHardware(
  {
    format: 'spillway-hardware-1',
    name: 'two cores',
    machine: { processorName: 'a processor of tests', processors: 2, memoryBytes: 8 * 2 ** 30 },
    memory: { gpuBytes: 0, cpuBytes: 8 * 2 ** 30, diskBytes: 1e11 },
    links: { diskReadBytesPerSecond: 1e9, diskWriteBytesPerSecond: 8e8 },
    cpu: {
      threads: 2,
      matmul: [
        { weights: 'q4', tokens: 1, flopsPerSecond: 3e10 },
        { weights: 'q4', tokens: 8, flopsPerSecond: 1.5e11 },
        { weights: 'q4', tokens: 64, flopsPerSecond: 2.8e11 },
      ],
      attention: { prefillFlopsPerSecond: 5e10, decodeBytesPerSecond: 1e10 },
      memoryBytesPerSecond: 4e10,
      quantiseValuesPerSecond: 1e9,
      dequantiseValuesPerSecond: 2e9,
      taskSeconds: 2e-5,
    },
  },
  'two cores',
);
