import type { BlockSetting } from '../CostModel.js';
import { PAGE_TOKENS } from '../reserves.js';
import { ALL_POSITIONS, lastPositions } from '../../engine/grid/CacheLaw.js';
import { bitsOf, cacheValues, layerElements, meanOfLayers, type ModelShape } from '../ModelShape.js';
import { compressedBits, tokensPerSquareOf, type Compression } from '../Policy.js';
import { WEIGHT_TYPES, type WeightType } from '../../model/weightTypes.js';

/** Bytes of what moves and of what is kept, under a policy's compression. */
export interface Sizes {
  /** One layer's weights, on average, and of the largest layer. */
  readonly layerWeightBytes: number;
  readonly largestLayerWeightBytes: number;
  /** Embeddings, head, final norm: what is no layer's. */
  readonly globalWeightBytes: number;
  /** Keys and values of one token in one layer. */
  readonly tokenCacheBytes: number;
  /** Hidden state of one token, as it is handed from layer to layer. */
  readonly tokenActivationBytes: number;
  /** Pages that one row holds at its longest; its last token is never computed. */
  readonly rowPages: number;
  /** The ones of these pages that all rows have in common. */
  readonly sharedPages: number;
  /** One page, all layers together; where some keep less than all positions, on average over such a row's pages. */
  readonly pageBytes: number;
  /** The bytes that a row takes beside its pages, however long it is: its states in layers that remember some. */
  readonly rowStateBytes: number;
  /** The share of a row's positions that layers keep, on average. */
  readonly keptShare: number;
}

type Sized = Pick<BlockSetting, 'shape' | 'workload' | 'block'> & Partial<Pick<BlockSetting, 'hardware'>>;

/** Bytes of a layer's state, before the floats. */
const STATE_HEADER_BYTES = 64;

export function sizesOf({ shape, workload, block, hardware }: Sized): Sizes {
  const bits = bitsOf(shape.weightType);
  const saved = (layerElements(shape) * savedBits(shape, block.compressWeights)) / 8;
  const layerWeightBytes = shape.layerWeightBytes - saved;
  const { largestLayerWeightBytes: largest = shape.layerWeightBytes } = shape;
  // Outside of the layers 8 bits are the least.
  const globalWeightBytes =
    (shape.globalWeightBytes * weightBits(shape.weightType, block.compressWeights === 'none' ? 'none' : '8bit')) / bits;
  const tokenCacheBytes = (cacheValues(shape) * compressedBits(block.compressCache, 16)) / 8;
  const rowPages = Math.ceil(Math.max(1, workload.promptTokens + workload.newTokens - 1) / PAGE_TOKENS);
  const onGpu = hardware !== undefined && hardware.memory.gpuBytes > 0;
  const keptShare = keptShareOf(shape, rowPages, 2 * tokensPerSquareOf(block), onGpu);
  return {
    layerWeightBytes,
    largestLayerWeightBytes: largest - saved,
    globalWeightBytes,
    tokenCacheBytes,
    tokenActivationBytes: (shape.streams ?? 1) * shape.hiddenSize * 4,
    rowPages,
    sharedPages: Math.floor((workload.sharedPrefixTokens ?? 0) / PAGE_TOKENS),
    pageBytes: tokenCacheBytes * PAGE_TOKENS * shape.layers * keptShare,
    rowStateBytes: (shape.mixers ?? []).reduce(
      (sum, { layers, stateFloats }) =>
        sum + (stateFloats === undefined ? 0 : layers * (stateFloats * 4 + STATE_HEADER_BYTES)),
      0,
    ),
    keptShare,
  };
}

/**
 * The share of a row's positions that layers keep, by the law of each: all of them, the last of a window, or none.
 * @param underWay most tokens of a prompt that are computed together
 */
function keptShareOf(shape: ModelShape, rowPages: number, underWay: number, onGpu: boolean): number {
  if (shape.mixers === undefined) return 1;
  return meanOfLayers(shape, ({ window }) => {
    if (window === undefined) return 0;
    // A GPU's layers name pages to each other: all keep all.
    const law = window === 0 || onGpu || shape.keepsAll === true ? ALL_POSITIONS : lastPositions(window);
    return Math.min(1, law.mostPages(underWay, PAGE_TOKENS) / rowPages);
  });
}

/** Bits that compression takes off a layer's weight, on average. */
function savedBits({ weightType, weightMix }: BlockSetting['shape'], compression: Compression): number {
  if (compression === 'none') return 0;
  let bits = 0;
  for (const [type, share = 0] of Object.entries(weightMix ?? { [weightType]: 1 }) as [WeightType, number?][])
    bits += share * (bitsOf(type) - weightBits(type, compression));
  return bits;
}

/**
 * Bits a weight after compression (model/compressBindings): 4.5 in groups of 64, 8.5 in groups of 32; what has as few
 * already stays, and so does what has 4 or fewer beside its scales.
 */
function weightBits(type: WeightType, compression: Compression): number {
  const bits = bitsOf(type);
  if (compression === 'none' || WEIGHT_TYPES[type].bits <= 4) return bits;
  return Math.min(bits, compression === '4bit' ? 4.5 : 8.5);
}
