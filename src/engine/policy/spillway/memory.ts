import { sum } from '../Affine.js';
import type { BlockSetting, MemoryTerm } from '../CostModel.js';
import { tokensPerSquareOf } from '../Policy.js';
import type { Sizes } from './sizes.js';
import { workingMemory } from './workingMemory.js';
import { HEAP_MARGIN_BYTES } from '../../reserves.js';

/** Layers' weights, and batches' caches, that are where computing happens at once while they move. */
const BUFFERS = 2;

/** Which of the charges apply that do not depend on how much is on disk, only on whether anything is. */
export interface Charges {
  /** Weights stream from disk: the repacked file holds all of them. */
  readonly streams: boolean;
  /** Cache spills to disk: every row keeps a page in memory to write to. */
  readonly spills: boolean;
}

/** Bytes that the pools of each tier reserve. */
export function memoryTerms({ hardware, shape, block }: BlockSetting, sizes: Sizes, liveRows: number, { streams, spills }: Charges): MemoryTerm[] {
  const { layerWeightBytes: w, tokenActivationBytes, rowPages, pageBytes } = sizes;
  const { layers: l } = shape;
  const onGpu = hardware.memory.gpuBytes > 0;
  const slots = block.schedule === 'row' ? 1 : block.batches;
  const tokens = tokensPerSquareOf(block);
  const { scratchBytes, activationBytes } = workingMemory(shape, tokens, block.threads ?? hardware.cpu.threads);
  const cache = liveRows * rowPages * pageBytes;
  // Staged pages of two batches, of one layer.
  const staging = (BUFFERS * Math.min(liveRows, block.batchSize) * rowPages * pageBytes) / l;
  const hidden = slots * tokens * tokenActivationBytes;
  const store = w * l + shape.globalWeightBytes;
  const disk: MemoryTerm = { tier: 'disk', when: 'run', bytes: { constant: streams ? store : 0, cn: cache, hn: hidden } };
  const tails = spills ? liveRows * pageBytes : 0;
  if (!onGpu) {
    const fixed = HEAP_MARGIN_BYTES + shape.globalWeightBytes + scratchBytes + activationBytes * slots + tails;
    return [{ tier: 'cpu', when: 'run', bytes: { constant: fixed, wc: w * l, wn: BUFFERS * w, cc: cache, cn: staging } }, disk];
  }
  // Values are 16-bit on the GPU; the native runtime's of the CPU are 32-bit.
  const working = (scratchBytes + activationBytes * (slots > 1 ? 2 : 1)) / 2;
  const moved = block.cpuAttention ? {} : { cc: staging, cn: staging };
  return [
    { tier: 'gpu', when: 'run', bytes: sum({ constant: shape.globalWeightBytes + working, wg: w * l, wc: BUFFERS * w, wn: BUFFERS * w, cg: cache, hg: hidden }, moved) },
    { tier: 'cpu', when: 'run', bytes: { constant: HEAP_MARGIN_BYTES + tails, wc: w * l, wn: BUFFERS * w, cc: cache, cn: staging, hc: hidden, hn: hidden / slots } },
    disk,
  ];
}
