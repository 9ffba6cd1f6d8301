import type { RuntimeBytes } from '../../bindings/Addon.js';
import type { GpuRuntimeOptions } from '../../bindings/Gpu.js';
import { MemoryBudgetError } from '../../errors/MemoryBudgetError.js';
import type { GpuSettings } from './settings.js';

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

/** Whether what of the cache is not on the GPU comes to it for attention. */
export function fetches({ options }: GpuTier): boolean {
  return options.cacheBuffers > 0;
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
   * Pages of a row of expected length, all of whose pages are on the GPU; of the shortest row that an engine must have
   * room for; and the most that would ever be used.
   */
  readonly rowPages: number;
  readonly minPages: number;
  readonly maxPages: number;
  /** Pages of a square that a buffer for those that come to the GPU has places for. */
  readonly squarePages: number;
}

/** Host memory that everything which crosses the link goes through. */
export const PINNED_BYTES = 32 * 2 ** 20;
/** A square attends over the pages of one buffer while the next square's come to the other. */
export const CACHE_BUFFERS = 2;
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
  minPages,
  maxPages,
  squarePages,
}: GpuTierDemand): GpuTier {
  const { device, capBytes, products, weightShare, cacheShare } = settings;
  // All of the cache may fit there; where it does not, what is left comes through buffers.
  let cacheBuffers = settings.cpuAttention || cacheShare === undefined || cacheShare === 1 ? 0 : CACHE_BUFFERS;
  const optionsOf = (residentLayerBytes: number, buffers: number, pages: number): GpuRuntimeOptions => ({
    device,
    memoryBytes: capBytes,
    pinnedBytes: PINNED_BYTES,
    pages,
    residentLayerBytes,
    buffers,
    cacheBuffers,
    cacheBufferPages: cacheBuffers > 0 ? squarePages : 0,
    products,
  });
  const takes = (residentLayerBytes: number, buffers: number): number => {
    const { gpu } = measure(optionsOf(buffers === 0 ? WHOLE_LAYERS : residentLayerBytes, buffers, 0));
    return gpu
      ? gpu.weights + gpu.weightBuffers + gpu.cacheBuffers + gpu.scratch + activationBuffers * gpu.activations
      : 0;
  };
  const nothing = measure(optionsOf(0, 1, 0));
  const pageBytes = nothing.cache / tablePages;
  const plan = (): GpuPlan =>
    planGpu({
      capBytes,
      takes,
      pageBytes,
      rows,
      rowPages,
      minPages,
      maxPages,
      weightShare,
      cacheShare,
      largestLayerBytes: Math.max(...nothing.streamed),
    });
  let planned = plan();
  if (!settings.cpuAttention && planned.cacheShare < 1 && cacheBuffers === 0) {
    cacheBuffers = CACHE_BUFFERS;
    planned = plan();
  }
  const { residentLayerBytes, buffers, pages, cacheShare: share } = planned;
  return {
    options: optionsOf(buffers === 0 ? WHOLE_LAYERS : residentLayerBytes, buffers, pages),
    cacheShare: share,
    capBytes,
    pageBytes,
    fixedBytes: takes(residentLayerBytes, buffers),
  };
}

export interface GpuDemand {
  /** Cap on what is reserved on the GPU. */
  readonly capBytes: number;
  /**
   * What a runtime takes there without a page of cache, by how much of each layer stays and how many buffers the rest
   * of a layer is loaded into. Grows with both.
   */
  readonly takes: (residentLayerBytes: number, buffers: number) => number;
  /** From here on every layer is wholly resident. */
  readonly largestLayerBytes: number;
  /** One page of cache in every layer. */
  readonly pageBytes: number;
  /** Rows that the block has places for, and the pages that one of expected length takes. */
  readonly rows: number;
  readonly rowPages: number;
  /** Pages beyond which more would never be used. */
  readonly maxPages: number;
  /**
   * The share of every layer that is to be there, and of each row's pages, where somebody has decided it; else what
   * there is room for.
   */
  readonly weightShare?: number | undefined;
  readonly cacheShare?: number | undefined;
  /** With `cacheShare`: pages of the shortest row that there must be room for. */
  readonly minPages: number;
}

export interface GpuPlan {
  /** Bytes of each layer that stay on the GPU for good. */
  readonly residentLayerBytes: number;
  /** Buffers that the rest of a layer is loaded into; 0 where there is no rest. */
  readonly buffers: number;
  readonly pages: number;
  /** Of each row's pages. */
  readonly cacheShare: number;
}

/** One layer is computed while the next one is loaded. */
export const GPU_WEIGHT_BUFFERS = 2;

/**
 * Divides the GPU's memory between weights and KV cache. Where all weights fit they come first. Else the cache does,
 * since a row more in a pass costs nothing on the link, and what is left keeps a part of every layer. Pure.
 * @throws MemoryBudgetError with the smallest cap that works
 */
export function planGpu(demand: GpuDemand): GpuPlan {
  const { capBytes, takes, largestLayerBytes: largest, pageBytes, maxPages, weightShare, cacheShare } = demand;
  const minPages = cacheShare === undefined ? 0 : demand.minPages;
  const affordable = (taken: number): number => Math.floor((capBytes - taken) / pageBytes);
  const whole = takes(largest, 0);
  if ((weightShare ?? 1) === 1 && affordable(whole) >= minPages) {
    return { residentLayerBytes: largest, buffers: 0, ...divided(demand, Math.min(affordable(whole), maxPages)) };
  }
  const asked = weightShare === undefined ? undefined : Math.round(largest * weightShare);
  const buffers = asked === largest ? 0 : GPU_WEIGHT_BUFFERS;
  const least = takes(asked ?? 0, buffers);
  if (affordable(least) < minPages) {
    const needed = least + minPages * pageBytes;
    throw new MemoryBudgetError(
      'gpu',
      capBytes,
      weightShare === undefined ? Math.min(needed, whole + minPages * pageBytes) : needed,
      'the model with its working memory',
    );
  }
  const blockPages =
    cacheShare === undefined ? demand.rows * demand.rowPages : demand.rows * Math.ceil(demand.rowPages * cacheShare);
  const cache = divided(demand, Math.min(affordable(least), Math.max(minPages, blockPages)));
  let low = asked ?? 0;
  let high = asked ?? largest;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (takes(middle, buffers) + cache.pages * pageBytes <= capBytes) low = middle;
    else high = middle - 1;
  }
  return { residentLayerBytes: low, buffers, ...cache };
}

/** What of the cache is there when it has room for so many pages: whole pages of rows of expected length. */
function divided({ rows, rowPages, cacheShare }: GpuDemand, pages: number): Pick<GpuPlan, 'pages' | 'cacheShare'> {
  if (cacheShare !== undefined) return { pages: cacheShare === 0 ? 0 : pages, cacheShare };
  const perRow = Math.floor(pages / rows);
  if (perRow >= rowPages) return { pages, cacheShare: 1 };
  return { pages: perRow * rows, cacheShare: perRow / rowPages };
}
