import type { RuntimeBytes } from '../../bindings/Addon.js';
import type { GpuRuntimeOptions } from '../../bindings/Gpu.js';
import { planGpu } from '../memory/planGpu.js';
import type { GpuSettings } from './settleOptions.js';

/** What of an engine is on the GPU. */
export interface GpuTier {
  readonly options: GpuRuntimeOptions;
  /** Of each row's pages. */
  readonly cacheShare: number;
  /**
   * Cap on what is reserved there; what of it is planned for, without the pages of the cache; and one page, all layers
   * together.
   */
  readonly capBytes: number;
  readonly fixedBytes: number;
  readonly pageBytes: number;
}

export interface GpuTierDemand {
  readonly settings: GpuSettings;
  /** What a runtime would reserve with so much on the GPU, and so many pages of cache in memory. */
  readonly measure: (gpu: GpuRuntimeOptions) => RuntimeBytes;
  readonly tablePages: number;
  /** Buffers for hidden states. */
  readonly activationBuffers: number;
  readonly rows: number;
  /**
   * Pages of a usual row; pages of a least row; and the most that would ever be used: all for rows whose pages are all
   * on the GPU.
   */
  readonly rowPages: number;
  readonly leastPages: number;
  readonly mostPages: number;
}

/** Host memory that everything which crosses the link goes through. */
export const PINNED_BYTES = 32 * 2 ** 20;
/** As `residentLayerBytes`: every layer, however large. */
const WHOLE_LAYERS = 2 ** 52;

/**
 * Decides what of a model is on the GPU: weights, KV cache, and room for what is computed.
 * @throws MemoryBudgetError with the smallest cap that works
 */
export function gpuTier({
  settings,
  measure,
  tablePages,
  activationBuffers,
  rows,
  rowPages,
  leastPages,
  mostPages,
}: GpuTierDemand): GpuTier {
  const { device, capBytes, products, weightShare, cacheShare } = settings;
  const optionsOf = (residentLayerBytes: number, buffers: number, pages: number): GpuRuntimeOptions => ({
    device,
    memoryBytes: capBytes,
    pinnedBytes: PINNED_BYTES,
    pages,
    residentLayerBytes,
    buffers,
    products,
  });
  const takes = (residentLayerBytes: number, buffers: number): number => {
    const { gpu } = measure(optionsOf(buffers === 0 ? WHOLE_LAYERS : residentLayerBytes, buffers, 0));
    return gpu ? gpu.weights + gpu.weightBuffers + gpu.scratch + activationBuffers * gpu.activations : 0;
  };
  const nothing = measure(optionsOf(0, 1, 0));
  const pageBytes = nothing.cache / tablePages;
  const {
    residentLayerBytes,
    buffers,
    pages,
    cacheShare: share,
  } = planGpu({
    capBytes,
    takes,
    pageBytes,
    rows,
    rowPages,
    leastPages,
    mostPages,
    weightShare,
    cacheShare,
    largestLayerBytes: Math.max(...nothing.streamed),
  });
  return {
    options: optionsOf(buffers === 0 ? WHOLE_LAYERS : residentLayerBytes, buffers, pages),
    cacheShare: share,
    capBytes,
    pageBytes,
    fixedBytes: takes(residentLayerBytes, buffers),
  };
}
