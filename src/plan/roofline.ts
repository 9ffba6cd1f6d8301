import { type Affine, times } from './Affine.js';
import type { BlockCost, BlockSetting } from './CostModel.js';
import { type ComputeProfile, hasGpu, type OtherCompute } from './HardwareProfile.js';
import { layerFlopsPerToken } from './model/computeSeconds.js';
import { cacheValues, layerElements, meanOfLayers, type ModelShape } from './ModelShape.js';
import { type Compression, hostShare, slotsOf } from './Policy.js';
import type { UnpredictedOptions } from './unpredicted.js';

const BITS: Readonly<Record<Compression, number>> = { none: 16, '8bit': 8, '4bit': 4 };

/**
 * The cost with the seconds that the machine takes at least, so that no model promises what its processors, memory,
 * links or disk cannot do.
 */
export function heldToRoofline(cost: BlockCost, setting: BlockSetting): BlockCost {
  // A getter of the phases stays one: most blocks that a search looks at are never costed.
  return Object.create(Object.getPrototypeOf(cost) as object | null, {
    ...Object.getOwnPropertyDescriptors(cost),
    floors: { value: floorsOf(setting, cost), enumerable: true },
  }) as BlockCost;
}

/**
 * Seconds that each part of the machine takes at least for the block, whatever overlaps. All of them are lower bounds:
 * a pass over the layers makes a token of each row that has a place, reads what a token needs of the weights once, as
 * they are stored and without scales, and every new token's attention reads the keys and values before it, of layers
 * that keep all; what rows share counts for nothing. What runs taught of the machine may have made it faster.
 */
function floorsOf(
  { hardware, shape, workload, block }: BlockSetting,
  { newTokens, rows }: Pick<BlockCost, 'newTokens' | 'rows'>,
): Record<string, Affine> {
  const { links, corrections = {} } = hardware;
  const steps = newTokens / rows;
  const tokens = workload.promptTokens - (workload.sharedPrefixTokens ?? 0);
  const passes = newTokens / Math.min(rows, slotsOf(block) * block.batchSize);
  const tokenFlops = layerFlopsPerToken(shape);
  const multiplied = (passes * shape.layers * tokenFlops) / 2;
  const weights = (multiplied * storedBytes(shape, block.compressWeights)) / layerElements(shape);
  // Sparse attention need not read all that is kept.
  const { sparseAttention = 1 } = block as typeof block & UnpredictedOptions;
  const keeping = shape.layers * meanOfLayers(shape, ({ window }) => (window === 0 ? 1 : 0));
  const values = rows * keeping * cacheValues(shape);
  const bytes = BITS[block.compressCache] / 8;
  const attended = sparseAttention < 1 ? 0 : values * ((steps - 1) * tokens + ((steps - 1) * (steps - 2)) / 2);
  const fresh = values * (tokens + steps - 1) * bytes;

  const byHost = hostShare(block);
  const [gpu, cpu] = [hasGpu(hardware) ? hardware.gpu : undefined, hardware.cpu];
  const on = gpu ?? cpu;
  const reads = hardware.machine.processorName === undefined ? statedReads : measuredReads;
  const attending = (processor: ComputeProfile): number => reads(processor, attended * bytes, { attended });
  const off = (each: number): Affine => ({ cc: each, cn: each });
  const {
    hostToDeviceBytesPerSecond: up = Infinity,
    deviceToHostBytesPerSecond: down = Infinity,
    diskReadBytesPerSecond: read = Infinity,
    diskWriteBytesPerSecond: write = Infinity,
  } = links;
  const products = measuredOf(on).flatMap(({ matmul }) => matmul);
  const compute = {
    constant:
      (shape.layers * tokenFlops * rows * (tokens + steps - 1)) /
      Math.max(...products.map(({ flopsPerSecond }) => flopsPerSecond)),
  };
  const weightsRead = reads(on, weights, { multiplied });
  const disk = {
    'disk-read': { wn: weights / read, cn: (attended * bytes) / read },
    'disk-write': { cn: fresh / write },
  };
  const floors: Record<string, Affine> =
    gpu === undefined
      ? { 'cpu-compute': compute, 'cpu-memory': { constant: weightsRead + attending(cpu) }, ...disk }
      : {
          'gpu-compute': compute,
          'gpu-memory': { constant: weightsRead, cg: attending(gpu), ...off((1 - byHost) * attending(gpu)) },
          'cpu-memory': off(byHost * attending(cpu)),
          'host-to-device': {
            wc: weights / up,
            wn: weights / up,
            ...off(((1 - byHost) * attended * bytes) / up),
          },
          'device-to-host': off(fresh / down),
          ...disk,
        };
  const learned = Math.min(1, ...Object.values(corrections));
  return Object.fromEntries(Object.entries(floors).map(([part, seconds]) => [part, times(learned, seconds)]));
}

/** The figures of a processor by numbers of threads: fewer than all may be faster. */
function measuredOf(on: ComputeProfile): readonly (ComputeProfile | OtherCompute)[] {
  return on.oneThreadACore ? [on, on.oneThreadACore] : [on];
}

/** Bytes of a layer's weights as they are stored. */
function storedBytes(shape: ModelShape, compression: Compression): number {
  return compression === 'none'
    ? shape.layerWeightBytes
    : Math.min(shape.layerWeightBytes, (layerElements(shape) * BITS[compression]) / 8);
}

/** Seconds of reading so many bytes, which are so many weights, or values that are attended to. */
type Reads = (
  on: ComputeProfile,
  bytes: number,
  of: { readonly multiplied?: number; readonly attended?: number },
) => number;

const statedReads: Reads = ({ memoryBytesPerSecond }, bytes) => bytes / memoryBytesPerSecond;

/**
 * On a machine that was measured: as products and attention were seen to read, where that is faster. Something else may
 * have been busy while memory was looked at.
 */
const measuredReads: Reads = (on, bytes, { multiplied = 0, attended = 0 }) => {
  const rates = measuredOf(on).map(({ matmul, attention: { decodeBytesPerSecond, decode = [] } }) => ({
    products: Math.max(...matmul.map(({ tokens, flopsPerSecond }) => flopsPerSecond / tokens)),
    attention: Math.max(decodeBytesPerSecond, ...decode.map(({ bytesPerSecond }) => bytesPerSecond)),
  }));
  const products = Math.max(...rates.map((rate) => rate.products));
  const attention = Math.max(...rates.map((rate) => rate.attention));
  return Math.min(statedReads(on, bytes, {}), (2 * multiplied) / products + (2 * attended) / attention);
};
