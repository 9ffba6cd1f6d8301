import type { EngineOptions, EngineShares } from '../../EngineOptions.js';
import { UsageError } from '../../errors/UsageError.js';
import type { Policy } from '../../plan/Policy.js';

/**
 * Gives a policy's options for `Engine.open`.
 * @param withGpu whether a GPU computes
 * @throws UsageError for what this machine cannot do
 */
export function policyOptions(
  {
    schedule,
    batchSize,
    batches,
    tokensPerSquare,
    threads,
    compressWeights,
    compressCache,
    cpuAttention,
    sparseAttention,
    precision,
    gpuProducts,
    ...policy
  }: Policy,
  withGpu = false,
): Partial<EngineOptions> {
  const onThisMachine = (name: 'weights' | 'cache' | 'activations'): EngineShares => {
    const { gpu, cpu, disk } = policy[name];
    if (withGpu) return { gpu, cpu, disk };
    if (gpu > 0)
      throw new UsageError(
        `policy: found ${name}.gpu ${gpu}, but nothing is computed on a GPU here: expected 0, or gpuMemory`,
      );
    return { cpu, disk };
  };
  return {
    schedule,
    batchSize,
    batches,
    compressWeights,
    compressCache,
    weights: onThisMachine('weights'),
    cache: onThisMachine('cache'),
    activations: onThisMachine('activations'),
    // Without a GPU the processor attends to everything and multiplies, whatever a policy says of one.
    ...(withGpu ? { cpuAttention } : {}),
    ...(withGpu && gpuProducts !== undefined ? { gpuProducts } : {}),
    ...(tokensPerSquare === undefined ? {} : { tokensPerSquare }),
    ...(threads === undefined ? {} : { threads }),
    ...(sparseAttention === undefined ? {} : { sparseAttention }),
    ...(precision === undefined ? {} : { precision }),
  };
}
