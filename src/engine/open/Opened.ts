import type { NativeRuntime, RuntimeOptions } from '../../bindings/Addon.js';
import { hiddenBytes, type DecoderSpec } from '../../model/DecoderSpec.js';
import { NativeDevice } from '../execution/NativeDevice.js';
import type { MemoryUse } from '../execution/RunRecorder.js';
import type { SpilledActivations } from '../execution/SlotActivations.js';
import { layerBounds, type Grid } from '../grid/Square.js';
import type { Tier } from '../grid/Tier.js';
import type { Movement, Placement, TierShares } from '../memory/movement.js';
import type { PageTier } from '../grid/pageCounts.js';
import { groupRules, windowOf, type CacheGroups } from '../memory/cacheGroups.js';
import type { FetchRules } from '../memory/fetchedPages.js';
import { pagedMovement, type PagedBytes } from '../memory/pagedMovement.js';
import { PagePool, type DiskCache } from '../memory/PagePool.js';
import { peerMovement } from '../memory/peerMovement.js';
import { fetches, hostAttends, sharedAttention, type GpuTier } from './gpuMemory.js';
import type { Plan } from './planEngine.js';
import type { Settings } from './settings.js';

/** An engine that has been opened: what was decided for it, and where its weights, KV cache and hidden states are. */
export interface Opened {
  readonly runtime: NativeRuntime;
  readonly plan: Plan;
  readonly settings: Settings;
  readonly grid: Grid;
  /** The part of the engine on the GPU; undefined where the processor computes. */
  readonly gpu: GpuTier | undefined;
  readonly cache: OpenedCache;
  readonly weights: OpenedWeights;
  /** Undefined where hidden states stay where they are computed. */
  readonly activations: SpilledActivations | undefined;
  readonly reserved: ReservedBytes;
}

export interface OpenedCache extends Pick<RuntimeOptions['cache'], 'pages' | 'pageTokens'> {
  /** The part that lives on disk. */
  readonly disk: DiskCache;
  /** Buffers for pages of the disk; 0 where the cache is all in memory. */
  readonly buffers: number;
  /**
   * The part of a row that the layers keep, and the number of rows of which they can remember a state; undefined where
   * none does.
   */
  readonly groups: CacheGroups;
  readonly states?: number | undefined;
  /** Bytes of one page, all layers of a group together, in memory; and of one layer of it on disk. */
  readonly pageBytes: number;
  readonly diskPageBytes: number;
  /** The part of a page on disk that is read where sparse attention takes values of chosen keys alone. Default: all. */
  readonly choosing?: PagedBytes['choosing'];
}

export interface OpenedWeights {
  /** Layers' weights that are in memory at once while they stream; 0 where nothing does. */
  readonly buffers: number;
  /** The repacked model, where something streams. */
  readonly storePath: string | undefined;
  /** Bytes of each layer, and how many of them are brought to where computing happens every pass. */
  readonly layerBytes: readonly number[];
  readonly streamedBytes: readonly number[];
  /** The part of `streamedBytes` that is experts'. */
  readonly expertBytes: readonly number[];
  /** The part of `streamedBytes` that comes from disk: with a GPU some of it may be in memory. */
  readonly fromDisk: readonly number[];
}

/** The memory the runtime took. */
export interface ReservedBytes {
  /** Cap on the process's resident memory; what of it the runtime reserved. */
  readonly capBytes: number;
  readonly hostBytes: number;
  /** The part of the cap that is left for the JavaScript heap. */
  readonly heapLimitBytes: number;
  /** The bytes on disk: the repacked model, and the file of cache and hidden states. */
  readonly storeBytes: number;
  readonly spillBytes: number;
  /** As in `RunStats`; with a GPU. */
  readonly unpinnedBytes?: number;
}

/** Makes the device that computes. */
export function deviceOf(
  { runtime, settings, grid, gpu, cache, weights, activations }: Opened,
  { layerSpecs }: DecoderSpec,
): NativeDevice {
  const { first, last, embeds } = layerBounds(grid);
  return new NativeDevice(runtime, {
    weightBuffers: weights.buffers,
    cacheBuffers: gpu && fetches(gpu) ? gpu.options.cacheBuffers : cache.buffers,
    pageTokens: cache.pageTokens,
    groups: cache.groups.laws.length,
    ...(gpu && fetches(gpu) && { fetch: fetchRules(gpu, cache) }),
    share: grid.share,
    firstLayer: first,
    embeds,
    windows: layerSpecs.slice(first, last + 1).map(windowOf),
    activations,
    storePath: weights.storePath,
    computeTier: gpu ? 'gpu' : 'cpu',
    sharesPromptsOnly: gpu !== undefined || settings.numerics.sparseAttention < 1,
    hostAttends: gpu !== undefined && hostAttends(gpu) && cache.pages > 0,
  });
}

/** Which pages come to the GPU. */
function fetchRules({ options }: GpuTier, { pages }: OpenedCache): Omit<FetchRules, 'pageTokens'> {
  return { firstGpuPage: pages, bufferPages: options.cacheBufferPages };
}

/** The pages of the KV cache. */
export function poolOf({ cache, gpu, grid }: Pick<Opened, 'cache' | 'gpu' | 'grid'>): PagePool {
  return new PagePool(
    cache.pages,
    cache.pageTokens,
    cache.disk,
    gpu && {
      pages: gpu.options.pages,
      share: gpu.cacheShare,
      ...(fetches(gpu) && { mostFetched: gpu.mostFetched, attendedShare: sharedAttention(gpu) }),
    },
    { ...groupRules(cache.groups, grid), states: cache.states },
    grid.share?.attention && grid.share,
  );
}

/** Says what moves for a square. */
export function movementOf(
  { grid, gpu, cache, weights, activations }: Pick<Opened, 'grid' | 'gpu' | 'cache' | 'weights' | 'activations'>,
  decoder: DecoderSpec,
  computeTier: Tier,
): Movement {
  const {
    layerSpecs,
    feedForward: { experts },
  } = decoder;
  const { first, last } = layerBounds(grid);
  const tokenBytes = hiddenBytes(decoder);
  const movement = pagedMovement({
    streamedBytes: weights.streamedBytes,
    pageTokens: cache.pageTokens,
    diskPages: cache.disk.pages,
    pageSlotBytes: cache.diskPageBytes,
    choosing: cache.choosing,
    windows: layerSpecs.slice(first, last + 1).map(windowOf),
    tokenBytes,
    residentTokens: activations?.residentTokens ?? Infinity,
    tokensPerSquare: grid.tokensPerSquare,
    stayingSlots: activations?.stayingSlots,
    gpu: gpu && weights,
    ...(experts && !gpu && { chosen: { experts, slots: grid.slots, expertBytes: weights.expertBytes } }),
    ...(gpu &&
      fetches(gpu) && {
        fetch: { ...fetchRules(gpu, cache), pageBytes: cache.pageBytes / grid.layers },
      }),
  });
  return peerMovement(movement, grid, tokenBytes, computeTier);
}

/** Where weights, KV cache and hidden states live, as the cost model has it. */
export function placementOf({
  weights: { layerBytes, streamedBytes, fromDisk },
  gpu,
  settings: { memory },
  grid: { slots, tokensPerSquare },
  activations,
}: Pick<Opened, 'weights' | 'gpu' | 'settings' | 'grid' | 'activations'>): Placement {
  const sum = (list: readonly number[]): number => list.reduce((total, each) => total + each, 0);
  const all = Math.max(1, sum(layerBytes));
  // What moves is whole blocks of the disk: of layers that stream wholly a little more than the layers.
  const shareOf = (bytes: readonly number[]): number => Math.min(1, sum(bytes) / all);
  const [moves, disk] = [shareOf(streamedBytes), shareOf(fromDisk)];
  const spread = (onGpu: number, onDisk: number): TierShares => ({
    gpu: onGpu,
    cpu: Math.max(0, 1 - onGpu - onDisk),
    disk: onDisk,
  });
  const staying = gpu ? (activations?.stayingSlots ?? slots) / slots : 0;
  const hiddenOnDisk = activations ? 1 - activations.residentTokens / tokensPerSquare : 0;
  return {
    weights: spread(gpu ? Math.max(0, 1 - moves) : 0, disk),
    cache: spread(gpu?.cacheShare ?? 0, memory.cacheOnDisk),
    activations: spread(staying, (1 - staying) * hiddenOnDisk),
  };
}

/** Bytes of each tier: the most that may be used, what is, and what was at most. */
export function memoryUse(
  { settings, gpu, cache, reserved }: Pick<Opened, 'settings' | 'gpu' | 'cache' | 'reserved'>,
  { used, peakUsed }: PagePool,
): MemoryUse {
  const withPages = (
    capacityBytes: number,
    fixedBytes: number,
    tier: PageTier,
    eachBytes: number,
  ): MemoryUse[string] => ({
    capacityBytes,
    usedBytes: fixedBytes + used[tier] * eachBytes,
    peakBytes: fixedBytes + peakUsed[tier] * eachBytes,
  });
  const { capBytes, hostBytes, storeBytes, spillBytes } = reserved;
  const host: MemoryUse = {
    ...(gpu && { gpu: withPages(gpu.capBytes, gpu.fixedBytes, 'gpu', gpu.pageBytes) }),
    cpu: withPages(capBytes, hostBytes - cache.pages * cache.pageBytes, 'memory', cache.pageBytes),
  };
  if (storeBytes + spillBytes === 0) return host;
  const diskPageBytes = cache.diskPageBytes * cache.groups.width;
  const kept = storeBytes + spillBytes - cache.disk.pages * diskPageBytes;
  const { diskBytes } = settings.memory;
  const capacityBytes = Number.isFinite(diskBytes) ? diskBytes : storeBytes + spillBytes;
  return { ...host, disk: withPages(capacityBytes, kept, 'disk', diskPageBytes) };
}
