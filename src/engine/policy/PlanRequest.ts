import { UsageError } from '../../errors/UsageError.js';
import type { CostModel } from './CostModel.js';
import type { HardwareProfile } from './HardwareProfile.js';
import type { ModelShape } from './ModelShape.js';
import type { TierName } from './Placement.js';
import type { Compression, ScheduleName } from './Policy.js';
import type { Workload } from './Workload.js';

/** Most bytes of each tier that a plan may use. Default: what the machine has. 0: the tier is not used. */
export type MemoryCaps = Readonly<Partial<Record<TierName, number>>>;

/** What may be chosen, and what the user has settled already. */
export interface Allowed {
  /** Default: zigzag and diagonal; models that know no schedules take zigzag. */
  readonly schedules?: readonly ScheduleName[] | undefined;
  readonly batchSize?: number | undefined;
  readonly batches?: number | undefined;
  /** Default: none only. Compression changes results, so it is used where it is allowed, and recommended elsewhere. */
  readonly compressWeights?: readonly Compression[] | undefined;
  readonly compressCache?: readonly Compression[] | undefined;
  /** Default: on the CPU and on the GPU, where there is one. */
  readonly cpuAttention?: readonly boolean[] | undefined;
  readonly threads?: number | undefined;
  readonly tokensPerSquare?: number | undefined;
  /** Default 1024 (256 without a GPU), and 64. */
  readonly mostBatchSize?: number | undefined;
  readonly mostBatches?: number | undefined;
}

/** What a plan is made for. */
export interface PlanRequest {
  readonly hardware: HardwareProfile;
  readonly shape: ModelShape;
  readonly workload: Workload;
  readonly caps?: MemoryCaps | undefined;
  readonly allow?: Allowed | undefined;
  /** Default spillway. */
  readonly costModel?: CostModel['name'] | undefined;
}

/**
 * The machine with no more memory than the caps leave. A tier that is capped at 0 is not there.
 * @throws UsageError for caps that contradict the machine, or leave nothing to compute in
 */
export function cappedHardware(hardware: HardwareProfile, caps: MemoryCaps = {}): HardwareProfile {
  const { memory, usableFraction } = hardware;
  for (const [tier, cap] of Object.entries(caps)) {
    if (!(cap >= 0)) throw new UsageError(`${tier} memory: found ${cap}, expected a number of bytes of at least 0`);
  }
  const limit = (have: number, cap: number | undefined, tier: string): number => {
    if (cap === undefined) return have;
    if (cap > 0 && have === 0) throw new UsageError(`${tier} memory: found a cap of ${cap} bytes, but hardware ${JSON.stringify(hardware.name)} has no ${tier} tier: leave it out`);
    // A cap is what the user gives; the share that is lost is lost of the machine's own memory.
    return Math.min(have, cap / usableFraction);
  };
  const cpuBytes = limit(memory.cpuBytes, caps.cpu, 'cpu');
  if (cpuBytes <= 0) throw new UsageError('cpu memory: found a cap of 0 bytes, expected more: prompts, results and whatever is under way need some');
  return { ...hardware, memory: { gpuBytes: limit(memory.gpuBytes, caps.gpu, 'gpu'), cpuBytes, diskBytes: limit(memory.diskBytes, caps.disk, 'disk') } };
}

/** Bytes of each tier that a plan may fill. */
export function usableBytes({ memory, usableFraction }: HardwareProfile): Readonly<Record<TierName, number>> {
  return { gpu: memory.gpuBytes * usableFraction, cpu: memory.cpuBytes * usableFraction, disk: memory.diskBytes * usableFraction };
}
