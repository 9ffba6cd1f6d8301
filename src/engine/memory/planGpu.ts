import { MemoryBudgetError } from '../../errors/MemoryBudgetError.js';

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
  /** Rows that the block has places for, and the pages that one of usual length takes. */
  readonly rows: number;
  readonly rowPages: number;
  /** Pages beyond which more would never be used. */
  readonly mostPages: number;
  /**
   * The share of every layer that is to be there, and of each row's pages, where somebody has decided it; else what
   * there is room for.
   */
  readonly weightShare?: number | undefined;
  readonly cacheShare?: number | undefined;
  /** With `cacheShare`: pages without which no row of a sensible length fits. */
  readonly leastPages: number;
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
  const { capBytes, takes, largestLayerBytes: largest, pageBytes, mostPages, weightShare, cacheShare } = demand;
  const leastPages = cacheShare === undefined ? 0 : demand.leastPages;
  const affordable = (taken: number): number => Math.floor((capBytes - taken) / pageBytes);
  const whole = takes(largest, 0);
  if ((weightShare ?? 1) === 1 && affordable(whole) >= leastPages) {
    return { residentLayerBytes: largest, buffers: 0, ...divided(demand, Math.min(affordable(whole), mostPages)) };
  }
  const asked = weightShare === undefined ? undefined : Math.round(largest * weightShare);
  const buffers = asked === largest ? 0 : GPU_WEIGHT_BUFFERS;
  const least = takes(asked ?? 0, buffers);
  if (affordable(least) < leastPages) {
    const needed = least + leastPages * pageBytes;
    throw new MemoryBudgetError(
      'gpu',
      capBytes,
      weightShare === undefined ? Math.min(needed, whole + leastPages * pageBytes) : needed,
      'the model with its working memory',
    );
  }
  const usual =
    cacheShare === undefined ? demand.rows * demand.rowPages : demand.rows * Math.ceil(demand.rowPages * cacheShare);
  const cache = divided(demand, Math.min(affordable(least), Math.max(leastPages, usual)));
  let low = asked ?? 0;
  let high = asked ?? largest;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (takes(middle, buffers) + cache.pages * pageBytes <= capBytes) low = middle;
    else high = middle - 1;
  }
  return { residentLayerBytes: low, buffers, ...cache };
}

/** What of the cache is there when it has room for so many pages: whole pages of rows of usual length. */
function divided({ rows, rowPages, cacheShare }: GpuDemand, pages: number): Pick<GpuPlan, 'pages' | 'cacheShare'> {
  if (cacheShare !== undefined) return { pages: cacheShare === 0 ? 0 : pages, cacheShare };
  const perRow = Math.floor(pages / rows);
  if (perRow >= rowPages) return { pages, cacheShare: 1 };
  return { pages: perRow * rows, cacheShare: perRow / rowPages };
}
