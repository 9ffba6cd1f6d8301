import type { BlockSetting } from '../CostModel.js';
import { PAGE_TOKENS } from '../reserves.js';
import { bitsOf, cacheValues, layerElements } from '../ModelShape.js';
import { compressedBits, type Compression } from '../Policy.js';
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
  /** Of these, the ones that all rows have in common. */
  readonly sharedPages: number;
  /** One page, all layers together. */
  readonly pageBytes: number;
}

export function sizesOf({ shape, workload, block }: Pick<BlockSetting, 'shape' | 'workload' | 'block'>): Sizes {
  const bits = bitsOf(shape.weightType);
  const saved = (layerElements(shape) * savedBits(shape, block.compressWeights)) / 8;
  const layerWeightBytes = shape.layerWeightBytes - saved;
  const { largestLayerWeightBytes: largest = shape.layerWeightBytes } = shape;
  // Outside of the layers 8 bits are the least.
  const globalWeightBytes =
    (shape.globalWeightBytes * weightBits(shape.weightType, block.compressWeights === 'none' ? 'none' : '8bit')) / bits;
  const tokenCacheBytes = (cacheValues(shape) * compressedBits(block.compressCache, 16)) / 8;
  return {
    layerWeightBytes,
    largestLayerWeightBytes: largest - saved,
    globalWeightBytes,
    tokenCacheBytes,
    tokenActivationBytes: shape.hiddenSize * 4,
    rowPages: Math.ceil(Math.max(1, workload.promptTokens + workload.newTokens - 1) / PAGE_TOKENS),
    sharedPages: Math.floor((workload.sharedPrefixTokens ?? 0) / PAGE_TOKENS),
    pageBytes: tokenCacheBytes * PAGE_TOKENS * shape.layers,
  };
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
