import type { RuntimeBytes } from '../../bindings/Addon.js';
import type { GpuRuntimeOptions } from '../../bindings/Gpu.js';
import { highest } from '../../collections/highest.js';
import { MemoryBudgetError } from '../../errors/MemoryBudgetError.js';
import { UsageError } from '../../errors/UsageError.js';
import { needsProcessor, type DecoderSpec } from '../../model/DecoderSpec.js';
import { PINNED_BYTES } from '../../plan/reserves.js';
import type { GpuSettings } from './settings.js';

/** The part of an engine on the GPU. */
export interface GpuTier {
  /** Where weights stream from disk more is pinned than these say: see `HostPlan`. */
  readonly options: GpuRuntimeOptions;
  /** Share of each row's pages. */
  readonly cacheShare: number;
  /** Where pages come to the GPU: most of one row that a buffer there holds; Infinity where it holds any row's. */
  readonly mostFetched: number;
  /** The share of each row's pages that the GPU attends to: those that are there, and those that come to it. */
  readonly attendedShare: number;
  /**
   * Cap on what is reserved there; what of it is planned for, without the pages of the cache; and one page, all layers
   * together.
   */
  readonly capBytes: number;
  readonly fixedBytes: number;
  readonly pageBytes: number;
}

/** @throws UsageError for a model that the processor alone computes */
export function checkOnGpu(decoder: DecoderSpec): void {
  if (needsProcessor(decoder))
    throw new UsageError(
      `gpuMemory: found some for a model of the family ${decoder.family}, expected none: it has parts that the processor alone computes`,
    );
}

/** Tells whether the part of the cache that is not on the GPU comes to it for attention, or the first of it. */
export function fetches({ options }: Pick<GpuTier, 'options'>): boolean {
  return options.cacheBuffers > 0;
}

/** Tells whether the processor attends to pages in memory and on disk, or to the last of them, where there are any. */
export function hostAttends(gpu: Pick<GpuTier, 'options' | 'attendedShare'>): boolean {
  return !fetches(gpu) || gpu.attendedShare < 1;
}

/** Says what share of each row's pages the GPU attends to, where the processor attends to some that could come. */
export function sharedAttention(gpu: Pick<GpuTier, 'options' | 'attendedShare'>): number | undefined {
  return fetches(gpu) && hostAttends(gpu) ? gpu.attendedShare : undefined;
}

/** As a policy says it. */
export function cpuAttentionOf(gpu: Pick<GpuTier, 'options' | 'cacheShare' | 'attendedShare'>): boolean | number {
  if (!fetches(gpu)) return true;
  return hostAttends(gpu) && (1 - gpu.attendedShare) / (1 - gpu.cacheShare);
}

/**
 * Says what share of each row's pages the GPU attends to, where so many are there, and so many of the others the
 * host's.
 */
export function attendedShare(cacheShare: number, hostShare: number): number {
  return 1 - hostShare * (1 - cacheShare);
}

/** Most pages that a row may have elsewhere, so that no more than so many of them come. */
export function mostElsewhere(
  { cacheShare, attendedShare: attended }: Pick<GpuTier, 'cacheShare' | 'attendedShare'>,
  fetchedPages: number,
): number {
  // Both shares of a row are rounded to whole pages.
  return attended === 1
    ? fetchedPages
    : Math.max(1, Math.floor(((fetchedPages - 1) * (1 - cacheShare)) / (attended - cacheShare)));
}

export interface GpuTierDemand extends Pick<GpuDemand, 'rows' | 'rowPages' | 'minPages' | 'maxPages' | 'bufferPages'> {
  readonly settings: GpuSettings;
  /** Measures what a runtime would reserve with so much on the GPU, and so many pages of cache in memory. */
  readonly measure: (gpu: GpuRuntimeOptions, pages: number) => RuntimeBytes;
  readonly tablePages: number;
  /** Buffers for hidden states. */
  readonly activationBuffers: number;
  /** Most pages of one row that a layer sees at once; Infinity where that is all of them. */
  readonly seenPages: number;
}

const MOST_PINNED_BYTES = 256 * 2 ** 20;
const MOST_PINNED_SHARE = 1 / 16;

/**
 * Says how much more is pinned where weights stream from disk to a GPU, if there is room for it: the disk reads so far
 * ahead of what the GPU has a buffer for, so that neither waits for the other's pauses. No more than a small share of a
 * cap on the host's memory, of which weights that stay make better use.
 */
export function morePinnedBytes(capBytes: number): number {
  return Math.max(0, Math.min(MOST_PINNED_BYTES, Math.floor(capBytes * MOST_PINNED_SHARE)) - PINNED_BYTES);
}

/** A square attends over the pages of one buffer while the next square's come to the other. */
export const CACHE_BUFFERS = 2;
/** As `residentLayerBytes`: every layer, however large. */
const WHOLE_LAYERS = 2 ** 52;
const NO_BUFFERS: BufferPages = { least: 0, most: 0 };

/**
 * Decides what of a model is on the GPU: weights, KV cache, and room for what is computed.
 * @throws MemoryBudgetError with the smallest cap that works
 */
export function gpuTier({
  settings,
  measure,
  tablePages,
  activationBuffers,
  seenPages,
  bufferPages,
  ...demand
}: GpuTierDemand): GpuTier {
  const { device, capBytes, products, weightShare, cacheShare, hostShare } = settings;
  const optionsOf = (
    residentLayerBytes: number,
    buffers: number,
    cacheBufferPages: number,
    pages: number,
  ): GpuRuntimeOptions => ({
    device,
    memoryBytes: capBytes,
    pinnedBytes: PINNED_BYTES,
    pages,
    residentLayerBytes: buffers === 0 ? WHOLE_LAYERS : residentLayerBytes,
    buffers,
    cacheBuffers: cacheBufferPages > 0 ? CACHE_BUFFERS : 0,
    cacheBufferPages,
    sharesAttention: cacheBufferPages > 0 && hostShare > 0,
    products,
  });
  const takes: GpuDemand['takes'] = (...what) => {
    // Where no page is in memory the processor attends to none, and attention needs no room of its own.
    const { gpu } = cacheShare === 1 ? measure(optionsOf(...what, 1), 0) : measure(optionsOf(...what, 0), tablePages);
    return gpu
      ? gpu.weights + gpu.weightBuffers + gpu.cacheBuffers + gpu.scratch + activationBuffers * gpu.activations
      : 0;
  };
  const nothing = measure(optionsOf(0, 1, 0, 0), tablePages);
  const pageBytes = nothing.cache / tablePages;
  const { residentLayerBytes, buffers, cacheBufferPages, pages, ...planned } = planGpu({
    ...demand,
    capBytes,
    takes,
    pageBytes,
    weightShare,
    cacheShare,
    bufferPages: hostShare === 1 ? () => NO_BUFFERS : bufferPages,
    largestLayerBytes: Math.max(...nothing.streamed),
  });
  // A share that leaves no page of any row elsewhere is all of the cache.
  const there = hostShare > 0 || cacheBufferPages > 0 ? planned.cacheShare : 1;
  return {
    options: optionsOf(residentLayerBytes, buffers, cacheBufferPages, pages),
    cacheShare: there,
    attendedShare: cacheBufferPages > 0 ? attendedShare(there, hostShare) : there,
    mostFetched: cacheBufferPages < seenPages ? cacheBufferPages : Infinity,
    capBytes,
    pageBytes,
    fixedBytes: takes(residentLayerBytes, buffers, cacheBufferPages),
  };
}

/** Pages of one layer that a buffer for those that come to the GPU has places for; 0 where none come. */
export interface BufferPages {
  /** Pages that squares of expected rows need. */
  readonly least: number;
  /** Pages that the longest row needs, too. */
  readonly most: number;
}

export interface GpuDemand {
  /** Cap on what is reserved on the GPU. */
  readonly capBytes: number;
  /**
   * Says what a runtime takes on the GPU without a page of cache, by how much of each layer stays, how many buffers the
   * rest of a layer is loaded into, and the pages that each buffer of the cache has places for. Grows with all of them.
   */
  readonly takes: (residentLayerBytes: number, buffers: number, cacheBufferPages: number) => number;
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
  /**
   * Says what buffers are needed where such a share of each row's pages is on the GPU. Fewer pages, the larger the
   * share.
   */
  readonly bufferPages: (cacheShare: number) => BufferPages;
}

/** The part of the cache on the GPU. */
interface GpuCachePlan {
  readonly pages: number;
  /** Share of each row's pages. */
  readonly cacheShare: number;
  /** Places of a buffer for other pages, which come when they are attended to; 0 where none do. */
  readonly cacheBufferPages: number;
}

export interface GpuPlan extends GpuCachePlan {
  /** Bytes of each layer that stay on the GPU for good. */
  readonly residentLayerBytes: number;
  /** Buffers that the rest of a layer is loaded into; 0 where there is no rest. */
  readonly buffers: number;
}

/** The bytes that a runtime takes by the pages that each buffer of the cache has places for: see `GpuDemand.takes`. */
type TakesWith = (cacheBufferPages: number) => number;

/** One layer is computed while the next one is loaded. */
const GPU_WEIGHT_BUFFERS = 2;

/**
 * Divides the GPU's memory between weights and KV cache. Where all weights fit they come first. Else the cache does,
 * since a row more in a pass costs nothing on the link, and what is left keeps a part of every layer. Buffers for pages
 * that come are as large as usual squares need; they grow up to what the longest row needs by what nobody else misses.
 * Pure.
 * @throws MemoryBudgetError with the smallest cap that works
 */
export function planGpu(demand: GpuDemand): GpuPlan {
  const { capBytes, takes, largestLayerBytes: largest, pageBytes, maxPages, weightShare } = demand;
  const whole: TakesWith = (places) => takes(largest, 0, places);
  if ((weightShare ?? 1) === 1) {
    const cache = divided(demand, whole, maxPages);
    if (cache) return { residentLayerBytes: largest, buffers: 0, ...withLongRows(demand, whole, cache) };
  }
  const asked = weightShare === undefined ? undefined : Math.round(largest * weightShare);
  const buffers = asked === largest ? 0 : GPU_WEIGHT_BUFFERS;
  const least: TakesWith = (places) => takes(asked ?? 0, buffers, places);
  const cache = divided(demand, least, blockPages(demand));
  if (!cache) {
    const needed = leastBytes(demand, least);
    throw new MemoryBudgetError(
      'gpu',
      capBytes,
      weightShare === undefined ? Math.min(needed, leastBytes(demand, whole)) : needed,
      'the model with its working memory',
    );
  }
  const residentLayerBytes = highest(
    asked ?? 0,
    asked ?? largest,
    (bytes) => takes(bytes, buffers, cache.cacheBufferPages) + cache.pages * pageBytes <= capBytes,
  );
  const taken: TakesWith = (places) => takes(residentLayerBytes, buffers, places);
  return { residentLayerBytes, buffers, ...withLongRows(demand, taken, cache) };
}

/** Pages of a full block of rows of expected length, and of a row that there must be room for. */
function blockPages({ rows, rowPages, minPages, cacheShare }: GpuDemand): number {
  return cacheShare === undefined ? rows * rowPages : Math.max(minPages, rows * Math.ceil(rowPages * cacheShare));
}

/**
 * Finds the part of the cache that is on the GPU beside what a runtime takes: of a share that nobody has decided the
 * largest that fits with its buffers, in whole pages of rows of expected length. Undefined where none does.
 */
function divided(
  { capBytes, pageBytes, rows, rowPages, minPages, cacheShare, bufferPages }: GpuDemand,
  taken: TakesWith,
  mostPages: number,
): GpuCachePlan | undefined {
  const room = (places: number): number => Math.min(mostPages, Math.floor((capBytes - taken(places)) / pageBytes));
  if (cacheShare !== undefined) {
    const { least: cacheBufferPages } = bufferPages(cacheShare);
    const pages = room(cacheBufferPages);
    return pages < minPages ? undefined : { pages: cacheShare === 0 ? 0 : pages, cacheShare, cacheBufferPages };
  }
  let perRow = rowPages;
  for (;;) {
    const share = perRow / rowPages;
    const { least: cacheBufferPages } = bufferPages(share);
    const pages = room(cacheBufferPages);
    if (pages < 0) return undefined;
    const fit = Math.floor(pages / rows);
    if (fit >= perRow) return { pages: share === 1 ? pages : perRow * rows, cacheShare: share, cacheBufferPages };
    // None between the two fits: it has no smaller buffers.
    perRow = fit;
  }
}

/** The smallest cap for which `divided` finds something. */
function leastBytes(
  { pageBytes, rows, rowPages, minPages, cacheShare, bufferPages }: GpuDemand,
  taken: TakesWith,
): number {
  if (cacheShare !== undefined) return taken(bufferPages(cacheShare).least) + minPages * pageBytes;
  const bare = taken(0);
  let least = Infinity;
  for (let perRow = 0; perRow <= rowPages && bare + perRow * rows * pageBytes < least; perRow++)
    least = Math.min(least, taken(bufferPages(perRow / rowPages).least) + perRow * rows * pageBytes);
  return least;
}

/** With buffers for rows that are longer than usual, as far as a full block of usual ones leaves room for them. */
function withLongRows(demand: GpuDemand, taken: TakesWith, cache: GpuCachePlan): GpuCachePlan {
  const { capBytes, pageBytes, bufferPages } = demand;
  const kept = Math.min(cache.pages, blockPages(demand));
  const cacheBufferPages = highest(
    cache.cacheBufferPages,
    bufferPages(cache.cacheShare).most,
    (places) => taken(places) + kept * pageBytes <= capBytes,
  );
  const pages = Math.min(cache.pages, Math.floor((capBytes - taken(cacheBufferPages)) / pageBytes));
  return { ...cache, cacheBufferPages, pages };
}
