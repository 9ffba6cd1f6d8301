import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { parseHardware, type HardwareProfile } from '../../src/plan/HardwareProfile.js';
import { requireKnownShape } from '../../src/plan/knownShapes.js';
import type { ModelShape } from '../../src/plan/ModelShape.js';
import { slotsOf, type Policy } from '../../src/plan/Policy.js';
import { choosePolicy } from '../../src/plan/search/choosePolicy.js';
import { builtIn } from './support/hardware.js';

const GIB = 2 ** 30;
const A100 = builtIn('lm-offload-a100');

/** A machine with a GPU, and what its parts give at most. */
const withGpu = fc
  .record({
    gpuGib: fc.integer({ min: 8, max: 80 }),
    cpuGib: fc.integer({ min: 64, max: 256 }),
    link: fc.double({ min: 2e9, max: 6e10, noNaN: true }),
    memory: fc.double({ min: 2e11, max: 4e12, noNaN: true }),
    flops: fc.double({ min: 2e13, max: 1e15, noNaN: true }),
  })
  .map(({ gpuGib, cpuGib, link, memory, flops }): HardwareProfile => {
    const { gpu, lmOffload } = A100;
    if (!gpu || !lmOffload) throw new Error('no GPU');
    return {
      ...A100,
      memory: { gpuBytes: gpuGib * GIB, cpuBytes: cpuGib * GIB, diskBytes: 0 },
      links: { hostToDeviceBytesPerSecond: link, deviceToHostBytesPerSecond: link },
      gpu: {
        ...gpu,
        // As a profile has it: few rows are bound by memory.
        matmul: [1, 64, 512].map((tokens) => ({
          weights: 'f16',
          tokens,
          flopsPerSecond: Math.min(flops, tokens * memory),
        })),
        memoryBytesPerSecond: memory,
      },
      lmOffload: { ...lmOffload, ctogBytesPerSecond: link, gtocBytesPerSecond: link, gpuFlopsPerSecond: flops },
    };
  });

/** A machine without one. */
const withoutGpu = fc
  .record({
    cpuGib: fc.integer({ min: 4, max: 64 }),
    disk: fc.double({ min: 2e8, max: 6e9, noNaN: true }),
    memory: fc.double({ min: 1e10, max: 3e11, noNaN: true }),
    flops: fc.double({ min: 5e10, max: 4e12, noNaN: true }),
  })
  .map(({ cpuGib, disk, memory, flops }) =>
    parseHardware(
      {
        format: 'spillway-hardware-1',
        name: 'drawn',
        machine: {},
        memory: { gpuBytes: 0, cpuBytes: cpuGib * GIB, diskBytes: 4e11 },
        links: { diskReadBytesPerSecond: disk, diskWriteBytesPerSecond: disk },
        cpu: {
          threads: 4,
          // One row is bound by memory, as on real machines.
          matmul: [
            { weights: 'f16', tokens: 1, flopsPerSecond: Math.min(flops, memory) },
            { weights: 'f16', tokens: 64, flopsPerSecond: flops },
          ],
          attention: { prefillFlopsPerSecond: flops, decodeBytesPerSecond: memory },
          memoryBytesPerSecond: memory,
          quantiseValuesPerSecond: 1e9,
          dequantiseValuesPerSecond: 2e9,
        },
      },
      'drawn',
    ),
  );

const shapes = fc.constantFrom('opt-1.3b', 'opt-6.7b', 'opt-13b', 'llama-3-8b', 'opt-30b').map(requireKnownShape);
const workload = fc.record({
  promptTokens: fc.integer({ min: 1, max: 500 }),
  newTokens: fc.integer({ min: 2, max: 256 }),
});

/** Parameters that multiply a hidden state, of all layers. */
function parameters({ hiddenSize: h1, feedForwardSize: h2, feedForwardMatrices, layers, heads, kvHeads }: ModelShape) {
  return layers * (h1 * h1 * (2 + (2 * kvHeads) / heads) + feedForwardMatrices * h1 * h2);
}

/** Seconds in which no machine decodes a step of all rows faster, whatever overlaps. */
function leastStepSeconds(hardware: HardwareProfile, shape: ModelShape, policy: Policy, rows: number): number {
  const { links, cpu, gpu, memory, lmOffload } = hardware;
  const values = parameters(shape);
  const { weights } = policy;
  const onGpu = memory.gpuBytes > 0;
  const memoryRate = onGpu ? (gpu?.memoryBytesPerSecond ?? Infinity) : cpu.memoryBytesPerSecond;
  const flops = onGpu
    ? (lmOffload?.gpuFlopsPerSecond ?? Infinity)
    : Math.max(...cpu.matmul.map(({ flopsPerSecond }) => flopsPerSecond));
  return Math.max(
    (2 * values * rows) / flops,
    // Once a step at least, for the batches may share what is in a cache.
    (2 * values) / memoryRate,
    onGpu ? (2 * values * (1 - weights.gpu)) / (links.hostToDeviceBytesPerSecond ?? Infinity) : 0,
    onGpu ? 0 : (2 * values * weights.disk) / (links.diskReadBytesPerSecond ?? Infinity),
  );
}

describe('no model promises what a machine cannot do', () => {
  test.each([
    ['spillway', withGpu],
    ['lm-offload', withGpu],
    ['spillway', withoutGpu],
  ] as const)(
    "%s's search on drawn machines: no step is faster than its bytes and operations allow",
    (costModel, machine) => {
      let planned = 0;
      fc.assert(
        fc.property(
          machine,
          shapes,
          workload,
          fc.integer({ min: 1, max: 64 }),
          (hardware, shape, work, mostBatchSize) => {
            let plan;
            try {
              plan = choosePolicy({
                hardware,
                shape,
                workload: work,
                costModel,
                allow: { mostBatchSize, mostBatches: 8 },
              });
            } catch (error) {
              expect((error as Error).name).toBe('MemoryBudgetError');
              return;
            }
            planned += 1;
            const { policy, predicted } = plan;
            const rows = policy.batchSize * slotsOf(policy);
            const most = rows / leastStepSeconds(hardware, shape, policy, rows);
            expect(predicted.tokensPerSecond).toBeLessThanOrEqual(
              most * (work.newTokens / (work.newTokens - 1)) * 1.001,
            );
          },
        ),
        { numRuns: Number(process.env['SPILLWAY_DRAWN_MACHINES'] ?? 20), endOnFailure: true },
      );
      expect(planned).toBeGreaterThan(0);
    },
  );
});
