import type { MemoryUse } from '../execution/RunRecorder.js';
import type { PageTier } from '../grid/pageCounts.js';
import type { PagePool } from '../memory/PagePool.js';
import type { SettledOptions } from './openRuntime.js';

/** Bytes of each tier of an engine: the most that may be used, what is, and what was at most. */
export function memoryUse(
  {
    cache,
    capBytes,
    reservedBytes,
    pageBytes,
    pageSlotBytes,
    diskCache,
    diskBytes,
    storeBytes,
    spillBytes,
    gpuTier,
    grid,
  }: SettledOptions,
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
  const host: MemoryUse = {
    ...(gpuTier && { gpu: withPages(gpuTier.capBytes, gpuTier.fixedBytes, 'gpu', gpuTier.pageBytes) }),
    cpu: withPages(capBytes, reservedBytes - cache.pages * pageBytes, 'memory', pageBytes),
  };
  if (storeBytes + spillBytes === 0) return host;
  const diskPageBytes = pageSlotBytes * grid.layers;
  const kept = storeBytes + spillBytes - diskCache.pages * diskPageBytes;
  const capacityBytes = Number.isFinite(diskBytes) ? diskBytes : storeBytes + spillBytes;
  return { ...host, disk: withPages(capacityBytes, kept, 'disk', diskPageBytes) };
}
