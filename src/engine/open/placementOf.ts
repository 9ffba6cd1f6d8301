import type { Placement, TierShares } from '../memory/movement.js';
import type { SettledOptions } from './openRuntime.js';

/** Where weights, KV cache and hidden states live, as the cost model has it. */
export function placementOf({
  layerBytes,
  streamedBytes,
  fromDisk,
  gpuTier,
  cacheOnDisk,
  activationsOnDisk,
  activations,
}: SettledOptions): Placement {
  const sum = (list: readonly number[]): number => list.reduce((total, each) => total + each, 0);
  const all = Math.max(1, sum(layerBytes));
  // What moves is whole blocks of the disk: of layers that stream wholly a little more than the layers.
  const shareOf = (bytes: readonly number[]): number => Math.min(1, sum(bytes) / all);
  const [moves, disk] = [shareOf(streamedBytes), shareOf(fromDisk)];
  const spread = (gpu: number, onDisk: number): TierShares => ({
    gpu,
    cpu: Math.max(0, 1 - gpu - onDisk),
    disk: onDisk,
  });
  return {
    weights: spread(gpuTier ? Math.max(0, 1 - moves) : 0, disk),
    cache: spread(gpuTier?.cacheShare ?? 0, cacheOnDisk),
    activations: spread(gpuTier && !activations ? 1 : 0, activationsOnDisk),
  };
}
