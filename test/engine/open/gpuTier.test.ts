import { describe, expect, test } from '@jest/globals';
import type { RuntimeBytes } from '../../../src/bindings/Addon.js';
import type { GpuRuntimeOptions } from '../../../src/bindings/Gpu.js';
import { gpuTier, type GpuTierDemand } from '../../../src/engine/open/gpuTier.js';

const [LAYERS, LAYER, GLOBAL, SCRATCH, ACTIVATION, PAGE] = [4, 1000, 500, 300, 50, 10];

/** What a runtime of four equal layers would take. */
function measure({ residentLayerBytes, buffers, pages }: GpuRuntimeOptions): RuntimeBytes {
  const rest = LAYER - Math.min(LAYER, residentLayerBytes);
  if (buffers > 0 !== rest > 0) throw new Error('buffers where nothing is loaded, or none where something is');
  return {
    weights: LAYERS * rest,
    weightBuffers: 0,
    cache: PAGE,
    scratch: 0,
    activations: 0,
    staging: 0,
    spill: 0,
    pageSlot: 4096,
    streamed: new Array<number>(LAYERS).fill(rest),
    gpu: {
      weights: GLOBAL + LAYERS * (LAYER - rest),
      weightBuffers: buffers * rest,
      cache: pages * PAGE,
      scratch: SCRATCH,
      activations: ACTIVATION,
      streamedFromStore: [],
    },
  };
}

const demand = (capBytes: number, more: Partial<GpuTierDemand['settings']> = {}): GpuTierDemand => ({
  settings: {
    device: 0,
    products: 'own',
    capBytes,
    weightShare: undefined,
    cacheShare: undefined,
    activationsMove: false,
    ...more,
  },
  measure,
  tablePages: 1,
  activationBuffers: 2,
  rows: 3,
  rowPages: 4,
  leastPages: 2,
  mostPages: 40,
});
/** All weights, scratch and hidden states. */
const WHOLE = GLOBAL + LAYERS * LAYER + SCRATCH + 2 * ACTIVATION;

describe('gpuTier', () => {
  test('keeps every layer where all fit, and counts everything', () => {
    const tier = gpuTier(demand(WHOLE + 12 * PAGE));
    expect(tier).toMatchObject({
      cacheShare: 1,
      fixedBytes: WHOLE,
      pageBytes: PAGE,
      options: { buffers: 0, pages: 12, memoryBytes: WHOLE + 12 * PAGE },
    });
    expect(measure(tier.options).streamed).toEqual([0, 0, 0, 0]);
  });

  test('streams what does not fit, never above the cap', () => {
    for (let cap = GLOBAL + 2 * LAYER + SCRATCH + 2 * ACTIVATION; cap < WHOLE; cap += 7) {
      const { options, fixedBytes } = gpuTier(demand(cap));
      const { gpu } = measure(options);
      const taken = (gpu?.weights ?? 0) + (gpu?.weightBuffers ?? 0) + (gpu?.scratch ?? 0) + 2 * (gpu?.activations ?? 0);
      expect(taken).toBe(fixedBytes);
      expect(taken + options.pages * PAGE).toBeLessThanOrEqual(cap);
      // A byte more of each layer would not have fitted.
      expect(taken + (LAYERS - 2) + options.pages * PAGE).toBeGreaterThan(cap);
    }
    expect(() => gpuTier(demand(GLOBAL + 2 * LAYER + SCRATCH + 2 * ACTIVATION - 1))).toThrow('gpu memory is capped');
  });

  test('keeps to shares that were decided', () => {
    expect(gpuTier(demand(WHOLE, { weightShare: 0.25, cacheShare: 0.5 })).options).toMatchObject({
      residentLayerBytes: 250,
      buffers: 2,
    });
    expect(gpuTier(demand(WHOLE, { weightShare: 0.25, cacheShare: 0 })).options.pages).toBe(0);
    expect(() => gpuTier(demand(WHOLE - 1, { weightShare: 1 }))).toThrow('--gpu-memory 4900');
  });
});
