import type { CommandContext } from './CommandContext.js';
import { shapeOf, showIdentifying } from './openModel.js';
import type { PlanChipsFlags } from './planChips.js';
import { withMeter } from './ProgressMeter.js';
import type { ScheduleChoice } from './scheduleModule.js';
import {
  MemoryBudgetError,
  readHardware,
  repackedModelBytes,
  typicalProcessBytes,
  type Compression,
  type CostModelName,
  type HiddenStates,
  type PlanRequest,
  type ProfileOptions,
} from './library.js';

export interface PlanCommandFlags extends PlanChipsFlags {
  readonly machines?: string;
  readonly hiddenStates: HiddenStates;
  readonly sharedPrefixTokens: number;
  readonly rows?: number;
  readonly input?: string;
  readonly policy?: string;
  readonly costModel: CostModelName;
  readonly gpuMemory?: number;
  readonly cpuMemory?: number;
  readonly diskMemory?: number;
  readonly disk?: string;
  readonly schedule?: ScheduleChoice;
  readonly sweep?: string;
  readonly batches?: number;
  readonly tokensPerSquare?: number;
  readonly compressCache: Compression | 'auto';
  readonly sparseAttention?: number;
  readonly threads?: number;
  readonly simulate: boolean;
  readonly trace?: string;
}

/** The request of one machine. @param compressWeights as a policy says */
export async function requestOn(
  machine: string,
  flags: PlanCommandFlags,
  compressWeights: Compression | undefined,
  context: CommandContext,
): Promise<PlanRequest> {
  const { model, disk, compressWeights: said } = flags;
  const shape = await shapeOf(model, context);
  const hardware = await measuring(context, flags, (options) => readHardware(machine, options));
  const { memory } = hardware;
  const held =
    machine === 'this' && memory.diskBytes > 0
      ? await withMeter((meter) =>
          repackedModelBytes(model, {
            disk,
            compressWeights: compressWeights ?? (said === 'auto' ? 'none' : said),
            signal: context.signal,
            onProgress: showIdentifying(meter),
          }),
        )
      : 0;
  return requestOf(flags, shape, { ...hardware, memory: { ...memory, diskBytes: memory.diskBytes + held } });
}

/** Measuring this machine takes a few seconds, which a person should see pass. */
export async function measuring<Read>(
  context: CommandContext,
  { gpuMemory, disk }: Pick<PlanCommandFlags, 'gpuMemory' | 'disk'>,
  read: (options: ProfileOptions) => Promise<Read>,
): Promise<Read> {
  return withMeter((meter) =>
    read({
      gpuMemory,
      disk,
      signal: context.signal,
      onNote: (line) => context.say(line),
      onProgress: ({ done, total, what }) => meter.show('measuring this machine', { done, total, words: what }),
    }),
  );
}

export function requestOf(
  flags: PlanCommandFlags,
  shape: PlanRequest['shape'],
  hardware: PlanRequest['hardware'],
): PlanRequest {
  const {
    promptTokens,
    maxNewTokens,
    sharedPrefixTokens,
    rows,
    gpuMemory,
    cpuMemory,
    diskMemory,
    costModel,
    schedule,
    batchSize,
    batches,
    tokensPerSquare,
    threads,
  } = flags;
  const kinds = (flag: Compression | 'auto'): readonly Compression[] =>
    flag === 'auto' ? ['none', '8bit', '4bit'] : [flag];
  return {
    shape,
    hardware,
    workload: { promptTokens, newTokens: maxNewTokens, ...(sharedPrefixTokens > 0 && { sharedPrefixTokens }), rows },
    caps: {
      ...(gpuMemory !== undefined && { gpu: gpuMemory }),
      ...(cpuMemory !== undefined && { cpu: capped(cpuMemory, { shape, hardware, costModel }) }),
      ...(diskMemory !== undefined && { disk: diskMemory }),
    },
    allow: {
      ...(typeof schedule === 'string' && { schedules: [schedule] }),
      batchSize,
      batches,
      tokensPerSquare,
      threads,
      ...(flags.sparseAttention !== undefined && { sparseAttention: flags.sparseAttention }),
      compressWeights: kinds(flags.compressWeights),
      compressCache: kinds(flags.compressCache),
    },
    costModel,
    maxLatencySeconds: flags.maxLatency,
  };
}

/**
 * Runs a plan whose caps are those of a plan, and names those of a process where it fits none.
 * @throws MemoryBudgetError
 */
export async function withProcess<Plan>(
  { cpuMemory }: PlanCommandFlags,
  request: PlanRequest,
  run: () => Plan | Promise<Plan>,
): Promise<Plan> {
  try {
    return await run();
  } catch (error) {
    if (!(error instanceof MemoryBudgetError) || error.tier !== 'cpu' || !leavesProcess(request)) throw error;
    const { availableBytes, neededBytes } = error;
    const needed = neededBytes + typicalProcessBytes(request.shape.vocabularySize);
    throw new MemoryBudgetError('cpu', cpuMemory ?? availableBytes, needed, 'the smallest plan');
  }
}

/**
 * Gives what a cap on the process leaves for a plan. GPU machines and the papers' models count in capacities of tiers:
 * there the cap is what it is.
 */
function capped(cpuMemory: number, of: Pick<PlanRequest, 'shape' | 'hardware' | 'costModel'>): number {
  return leavesProcess(of) ? Math.max(1, cpuMemory - typicalProcessBytes(of.shape.vocabularySize)) : cpuMemory;
}

function leavesProcess({ hardware, costModel }: Pick<PlanRequest, 'hardware' | 'costModel'>): boolean {
  return hardware.memory.gpuBytes === 0 && costModel === 'spillway';
}
