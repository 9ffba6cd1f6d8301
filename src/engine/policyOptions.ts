import type { EngineOptions } from '../EngineOptions.js';
import { UsageError } from '../errors/UsageError.js';
import type { Policy } from './policy/Policy.js';

/** What a policy says to `Engine.open`. @throws UsageError for what this machine cannot do */
export function policyOptions({ schedule, batchSize, batches, tokensPerSquare, threads, compressWeights, compressCache, ...policy }: Policy): Partial<EngineOptions> {
  const onThisMachine = (name: 'weights' | 'cache' | 'activations'): { cpu: number; disk: number } => {
    const { gpu, cpu, disk } = policy[name];
    if (gpu > 0) throw new UsageError(`policy: found ${name}.gpu ${gpu}, but nothing is computed on a GPU here: expected 0`);
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
    ...(tokensPerSquare === undefined ? {} : { tokensPerSquare }),
    ...(threads === undefined ? {} : { threads }),
  };
}
