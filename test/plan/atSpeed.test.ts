import { describe, expect, test } from '@jest/globals';
import { atSpeed } from '../../src/plan/atSpeed.js';
import { parseHardware, type HardwareProfile } from '../../src/plan/HardwareProfile.js';
import { predict } from '../../src/plan/predict.js';
import { CPU_MACHINE } from './support/hardware.js';
import { requireKnownShape } from '../../src/plan/knownShapes.js';

const points = [1, 8, 64, 256].map((tokens) => ({ weights: 'q4' as const, tokens, flopsPerSecond: 1e11 }));
const attention = {
  prefillFlopsPerSecond: 1e11,
  decodeBytesPerSecond: 1e10,
  decode: [{ cache: 'q4' as const, groupHeads: 4, bytesPerSecond: 2e10 }],
};
const machine: HardwareProfile = {
  ...CPU_MACHINE,
  cpu: {
    ...CPU_MACHINE.cpu,
    matmul: points,
    attention,
    taskSeconds: 1e-5,
    memoryCopyBytesPerSecond: 5e9,
    oneThread: { threads: 1, matmul: points, attention },
  },
};

describe('a machine at another speed', () => {
  test('has products between those of few rows and of many, and stays a profile', () => {
    const now = atSpeed(machine, { memory: 0.8, fewRows: 0.25, manyRows: 1 });
    expect(now.cpu.matmul.map(({ flopsPerSecond }) => flopsPerSecond / 1e11)).toEqual([
      0.25,
      expect.closeTo(0.5),
      1,
      1,
    ]);
    expect(now.cpu.oneThread?.matmul).toEqual(now.cpu.matmul);
    expect(now.cpu.memoryBytesPerSecond).toBeCloseTo(machine.cpu.memoryBytesPerSecond * 0.8);
    expect(now.cpu.memoryCopyBytesPerSecond).toBeCloseTo(4e9);
    expect(now.cpu.attention).toEqual(attention);
    expect(now.links).toEqual(machine.links);
    const requests = [{ operation: 'read' as const, requestBytes: 1e6, depth: 8, bytesPerSecond: 1e9 }];
    const slowDisk = atSpeed({ ...machine, diskRequests: requests }, { memory: 1, fewRows: 1, manyRows: 1, disk: 0.5 });
    expect(slowDisk).toMatchObject({ cpu: machine.cpu, diskRequests: [{ ...requests[0], bytesPerSecond: 5e8 }] });
    expect(slowDisk.links.diskReadBytesPerSecond).toBe((machine.links.diskReadBytesPerSecond ?? NaN) / 2);
    expect(slowDisk.links.diskWriteBytesPerSecond).toBe((machine.links.diskWriteBytesPerSecond ?? NaN) / 2);
    expect(parseHardware(JSON.parse(JSON.stringify(now)), 'test')).toEqual(now);
  });

  test('as ever is the same machine; at half the speed of everything a job takes twice as long', () => {
    const even = (speed: number): HardwareProfile =>
      atSpeed(machine, { memory: speed, fewRows: speed, manyRows: speed, disk: speed });
    expect(even(1)).toEqual(machine);
    const shape = requireKnownShape('opt-1.3b');
    const seconds = (hardware: HardwareProfile): number => {
      const inMemory = { gpu: 0, cpu: 1, disk: 0 };
      return predict(
        { hardware, shape, workload: { promptTokens: 100, newTokens: 20, rows: 64 } },
        {
          schedule: 'diagonal',
          batchSize: 32,
          batches: 1,
          weights: inMemory,
          cache: inMemory,
          activations: inMemory,
          compressWeights: 'none',
          compressCache: 'none',
          cpuAttention: true,
        },
      ).wallSeconds;
    };
    expect(seconds(even(0.5)) / seconds(machine)).toBeCloseTo(2, 6);
  });
});
