import type { DecoderSpec } from '../../model/DecoderSpec.js';
import type { Opened } from '../open/Opened.js';
import { layerBounds } from '../grid/Square.js';
import type { StageFacts } from './begin.js';

/** What the peers of an engine have to know of it. @param contents `ResultIdentity.model` */
export function peerFacts(
  decoder: DecoderSpec,
  { grid, cache, gpu }: Pick<Opened, 'grid' | 'cache' | 'gpu'>,
  contents: string,
): StageFacts {
  const { layers, hiddenSize, vocabularySize, family } = decoder;
  return {
    model: { layers, hiddenSize, vocabularySize, family, contents },
    layers: { first: layerBounds(grid).first, count: grid.layers },
    grid: { slots: grid.slots, rowsPerSlot: grid.rowsPerSlot, tokensPerSquare: grid.tokensPerSquare },
    cache: {
      pageTokens: cache.pageTokens,
      diskShare: cache.disk.share,
      mostDiskPages: cache.disk.mostPerRow,
      ...(gpu && { gpuShare: gpu.cacheShare }),
    },
    // On a GPU and with a cache on disk rows share nothing yet.
    sharesPages: !gpu && cache.disk.share === 0,
    pages: { gpu: gpu?.options.pages ?? 0, memory: cache.pages, disk: cache.disk.pages },
  };
}
