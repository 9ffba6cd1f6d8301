import { sum, times, type Affine } from '../../Affine.js';
import type { BlockSetting, PhaseCost } from '../../CostModel.js';
import type { LmOffloadConstants } from '../../HardwareProfile.js';
import { compressedBits, hostShare, slotsOf } from '../../Policy.js';
import { dequantiseOnGpu, quantiseOnGpu } from './quantisation.js';

/** The paper's symbols for one setting. */
export interface LmSymbols {
  readonly l: number;
  readonly s: number;
  readonly n: number;
  readonly h1: number;
  readonly bls: number;
  /** Batches of the block: each multiplies by all weights. */
  readonly slots: number;
  /**
   * The speed that the GPU's memory gives; the paper's constant of that name is what copying it while (de)quantising
   * gives.
   */
  readonly gpuBytesPerSecond: number;
  /** Weights of a layer, in values. */
  readonly weights: number;
  /** Bytes of a value of weights and of cache as they are stored and moved. */
  readonly weightBytes: number;
  readonly cacheBytes: number;
  readonly compressed: { readonly weights: boolean; readonly cache: boolean };
  /** The share that the CPU attends to of the cache that is not on the GPU; the paper's is 0 or 1. */
  readonly offloadAttention: number;
  readonly of: LmOffloadConstants;
}

export function lmSymbols({ hardware, shape, workload, block }: BlockSetting, of: LmOffloadConstants): LmSymbols {
  const { hiddenSize: h1, feedForwardSize: h2, feedForwardMatrices, layers: l } = shape;
  return {
    l,
    s: workload.promptTokens,
    n: workload.newTokens,
    h1,
    bls: block.batchSize * slotsOf(block),
    slots: slotsOf(block),
    gpuBytesPerSecond: hardware.gpu?.memoryBytesPerSecond ?? Infinity,
    // 4·h1² + 2·h1·h2 in the paper; a gated block has three matrices.
    weights: 4 * h1 * h1 + feedForwardMatrices * h1 * h2,
    weightBytes: compressedBits(block.compressWeights, 16) / 8,
    cacheBytes: compressedBits(block.compressCache, 16) / 8,
    compressed: { weights: block.compressWeights !== 'none', cache: block.compressCache !== 'none' },
    offloadAttention: hostShare(block),
    of,
  };
}

const offGpu = (bytes: number): Affine => ({ cc: bytes, cn: bytes });

/** Loading a layer's weights, made floats again on the GPU (equation 4). */
function loadWeight({ weights, weightBytes, compressed, of }: LmSymbols): Affine {
  const each =
    (weights * weightBytes) / of.ctogBytesPerSecond + (compressed.weights ? dequantiseOnGpu(weights, of) : 0);
  return { wc: each, wn: each };
}

/**
 * Gives the time that the GPU's memory takes for a layer, which the paper leaves out: every batch reads the layer's
 * weights, as the 16 bits that they are multiplied in, and attention reads the keys and values that it attends to
 * there.
 */
function gpuMemory({ weights, slots, gpuBytesPerSecond }: LmSymbols, attended: Affine): Affine {
  return times(2 / gpuBytesPerSecond, sum({ constant: slots * weights }, attended));
}

/** One layer of the prefill (equations 1, 2, 5): the new cache is quantised after the tasks. */
export function lmPrefill(of: LmSymbols): PhaseCost {
  const { l, s, h1, bls, weights, cacheBytes, compressed, of: machine } = of;
  const values = 2 * (s + 1) * h1 * bls; // equation 17
  const hidden = (2 * s * h1 * bls) / machine.ctogBytesPerSecond;
  const compute = {
    constant: (2 * bls * s * weights + 4 * bls * s * s * h1) / (machine.gpuFlopsPerSecond * machine.gpuEfficiency),
  };
  const quantise = compressed.cache ? offGpu(quantiseOnGpu(values, machine)) : {};
  const queues = {
    load_weight: loadWeight(of),
    load_activation: { hc: hidden, hn: hidden },
    store_cache: offGpu((values * cacheBytes) / machine.gtocBytesPerSecond),
    store_activation: { hc: hidden, hn: hidden },
    compute,
    'gpu-memory': gpuMemory(of, {}),
  };
  return {
    name: 'prefill',
    times: l,
    queues: { ...queues, quantise },
    bounds: Object.values(queues).map((task) => sum(task, quantise)),
    promptShare: 1,
  };
}

/**
 * One layer of one decode step: the slowest of six tasks (equation 2), or what the GPU's memory takes. Equations 18 and
 * 19 count the values of all n steps, where equation 2 is of one: they are divided by n here. With attention on the CPU
 * the cache neither moves nor is (de)quantised.
 */
export function lmDecode(of: LmSymbols): PhaseCost {
  const { l, s, n, h1, bls, weights, cacheBytes, compressed, offloadAttention, of: machine } = of;
  const old = 2 * (s + n / 2) * h1 * bls;
  const fresh = 2 * h1 * bls;
  const hidden = (2 * h1 * bls) / machine.ctogBytesPerSecond;
  const loadCache = offGpu(
    (old * cacheBytes) / machine.ctogBytesPerSecond + (compressed.cache ? dequantiseOnGpu(old, machine) : 0),
  );
  const storeCache = offGpu(
    (fresh * cacheBytes) / machine.gtocBytesPerSecond + (compressed.cache ? quantiseOnGpu(fresh, machine) : 0),
  );
  const products = (2 * bls * weights) / (machine.gpuFlopsPerSecond * machine.gpuEfficiency);
  const onGpu = (4 * old) / (machine.gpuFlopsPerSecond * machine.gpuEfficiency);
  const onCpu = (2 * old) / machine.cpuAttentionBytesPerSecond;
  const moved = 1 - offloadAttention;
  const attention = sum({ cg: onGpu }, offGpu(offloadAttention * onCpu + moved * onGpu));
  const queues = {
    load_weight: loadWeight(of),
    load_cache: times(moved, loadCache),
    load_activation: times(hidden, { hc: 1, hn: 1 }),
    store_cache: times(moved, storeCache),
    store_activation: times(hidden, { hc: 1, hn: 1 }),
    compute: sum({ constant: products }, attention),
    'gpu-memory': gpuMemory(of, { cg: old, ...offGpu(moved * old) }),
  };
  return { name: 'decode', times: l * (n - 1), queues, bounds: Object.values(queues), promptShare: 0 };
}
