import type { DecoderSpec } from '../model/DecoderSpec.js';
import type { SettledOptions } from './openRuntime.js';
import { layerBounds } from './schedules/Square.js';
import type { StageFacts } from './stages/begin.js';

/** What the peers of an engine have to know of it. */
export function stageFacts({ layers, hiddenSize, vocabularySize, family }: DecoderSpec, { grid, cache, diskCache, gpuTier }: SettledOptions): StageFacts {
  return {
    model: { layers, hiddenSize, vocabularySize, family },
    layers: { first: layerBounds(grid).first, count: grid.layers },
    grid: { slots: grid.slots, rowsPerSlot: grid.rowsPerSlot, tokensPerSquare: grid.tokensPerSquare },
    cache: { pageTokens: cache.pageTokens, diskShare: diskCache.share, mostDiskPages: diskCache.mostPerRow, ...(gpuTier && { gpuShare: gpuTier.cacheShare }) },
    pages: { gpu: gpuTier?.options.pages ?? 0, memory: cache.pages, disk: diskCache.pages },
  };
}
