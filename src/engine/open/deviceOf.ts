import type { NativeRuntime } from '../../bindings/Addon.js';
import type { DecoderSpec } from '../../model/DecoderSpec.js';
import { NativeDevice } from '../execution/NativeDevice.js';
import { PagePool } from '../memory/PagePool.js';
import type { SettledOptions } from './openRuntime.js';
import { layerBounds } from '../grid/Square.js';

/** What computes, as it was settled. */
export function deviceOf(runtime: NativeRuntime, settled: SettledOptions, { layerSpecs }: DecoderSpec): NativeDevice {
  const { first, last } = layerBounds(settled.grid);
  const windows = layerSpecs.slice(first, last + 1).map(({ window }) => window);
  return new NativeDevice(runtime, {
    ...settled,
    pageTokens: settled.cache.pageTokens,
    firstLayer: first,
    windows,
    computeTier: settled.gpuTier ? 'gpu' : 'cpu',
  });
}

/** The pages of the KV cache, likewise. */
export function poolOf({ cache, diskCache, gpuTier: gpu }: SettledOptions): PagePool {
  return new PagePool(
    cache.pages,
    cache.pageTokens,
    diskCache,
    gpu && { pages: gpu.options.pages, share: gpu.cacheShare },
  );
}
