import type { BlockSetting } from '../CostModel.js';
import { PAGE_TOKENS } from '../../reserves.js';
import { bitsOf, cacheValues, layerElements } from '../ModelShape.js';
import { compressedBits } from '../Policy.js';

/** Bytes of what moves and of what is kept, under a policy's compression. */
export interface Sizes {
  /** One layer's weights. */
  readonly layerWeightBytes: number;
  /** Keys and values of one token in one layer. */
  readonly tokenCacheBytes: number;
  /** Hidden state of one token, as it is handed from layer to layer. */
  readonly tokenActivationBytes: number;
  /** Pages that one row holds at its longest; its last token is never computed. */
  readonly rowPages: number;
  /** One page, all layers together. */
  readonly pageBytes: number;
}

export function sizesOf({ shape, workload, block }: Pick<BlockSetting, 'shape' | 'workload' | 'block'>): Sizes {
  const bits = bitsOf(shape.weightType);
  const weights = compressedBits(block.compressWeights, bits);
  const layerWeightBytes = block.compressWeights === 'none' ? shape.layerWeightBytes : shape.layerWeightBytes - (layerElements(shape) * (bits - weights)) / 8;
  const tokenCacheBytes = (cacheValues(shape) * compressedBits(block.compressCache, 16)) / 8;
  return {
    layerWeightBytes,
    tokenCacheBytes,
    tokenActivationBytes: shape.hiddenSize * 4,
    rowPages: Math.ceil(Math.max(1, workload.promptTokens + workload.newTokens - 1) / PAGE_TOKENS),
    pageBytes: tokenCacheBytes * PAGE_TOKENS * shape.layers,
  };
}
