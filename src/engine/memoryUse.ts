import type { MemoryUse } from './execution/RunRecorder.js';
import type { PagePool } from './memory/PagePool.js';
import type { SettledOptions } from './openRuntime.js';

/** Bytes of each tier of an engine: the most that may be used, what is, and what was at most. */
export function memoryUse({ cache, capBytes, reservedBytes, pageBytes, pageSlotBytes, diskCache, diskBytes, storeBytes, spillBytes, gpuTier, grid }: SettledOptions, { used, peakUsed }: PagePool): MemoryUse {
  const fixed = reservedBytes - cache.pages * pageBytes;
  const host: MemoryUse = {
    ...(gpuTier && { gpu: { capacityBytes: gpuTier.capBytes, usedBytes: gpuTier.fixedBytes + used.gpu * gpuTier.pageBytes, peakBytes: gpuTier.fixedBytes + peakUsed.gpu * gpuTier.pageBytes } }),
    cpu: { capacityBytes: capBytes, usedBytes: fixed + used.memory * pageBytes, peakBytes: fixed + peakUsed.memory * pageBytes },
  };
  if (storeBytes + spillBytes === 0) return host;
  const diskPageBytes = pageSlotBytes * grid.layers;
  const kept = storeBytes + spillBytes - diskCache.pages * diskPageBytes;
  const capacityBytes = Number.isFinite(diskBytes) ? diskBytes : storeBytes + spillBytes;
  return { ...host, disk: { capacityBytes, usedBytes: kept + used.disk * diskPageBytes, peakBytes: kept + peakUsed.disk * diskPageBytes } };
}
