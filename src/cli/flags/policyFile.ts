import { parsePolicy, readJsonObject, UsageError, type EngineOptions, type Policy } from '../library.js';

const MOST_BYTES = 2 ** 20;

/**
 * Reads a policy: what `plan --json` printed, or its `policy` alone.
 * @throws PlanFileError or another ModelFileError, naming file and field
 */
export async function readPolicyFile(path: string): Promise<Policy> {
  const document = await readJsonObject(path, MOST_BYTES);
  return parsePolicy(document['policy'] ?? document, path);
}

/** What a policy says to `Engine.open`. @throws UsageError for what this machine cannot do */
export function policyOptions({ batchSize, batches, tokensPerSquare, threads, compressWeights, compressCache, ...policy }: Policy): Partial<EngineOptions> {
  const onThisMachine = (name: 'weights' | 'cache' | 'activations'): { cpu: number; disk: number } => {
    const { gpu, cpu, disk } = policy[name];
    if (gpu > 0) throw new UsageError(`policy: found ${name}.gpu ${gpu}, but nothing is computed on a GPU here: expected 0`);
    return { cpu, disk };
  };
  return {
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
