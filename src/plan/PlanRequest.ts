import * as z from 'zod';
import { membersOf } from '../arguments/isObject.js';
import { UsageError } from '../errors/UsageError.js';
import { COST_MODEL_NAMES, type CostModel, type CostModelName } from './CostModel.js';
import { profileSchema, type HardwareProfile } from './HardwareProfile.js';
import { shapeSchema, type ModelShape } from './ModelShape.js';
import { parsedArgument } from './parsed.js';
import type { Tier } from '../engine/grid/Tier.js';
import { SCHEDULE_NAMES, type ScheduleName } from '../engine/schedules/blockSchedules.js';
import { BLOCK_BOUNDS, COMPRESSIONS, cpuAttentionSchema, SPARSE_ATTENTION, type Compression } from './Policy.js';
import { workloadSchema, type Workload } from './Workload.js';

/** Most bytes of each tier that a plan may use. Default: what the machine has. 0: the tier is not used. */
export type MemoryCaps = Readonly<Partial<Record<Tier, number | undefined>>>;

/** The possible choices, and what the user has settled already. */
export interface Allowed {
  /** Default: those of the cost model. */
  readonly schedules?: readonly ScheduleName[] | undefined;
  readonly batchSize?: number | undefined;
  readonly batches?: number | undefined;
  /** Default: none only. Compression changes results, so it is used where it is allowed, and recommended elsewhere. */
  readonly compressWeights?: readonly Compression[] | undefined;
  readonly compressCache?: readonly Compression[] | undefined;
  /** Default: on the CPU, on the GPU, where there is one, and shares of both at once. */
  readonly cpuAttention?: readonly (boolean | number)[] | undefined;
  /** As in a policy. It changes results, so nothing else is tried. Default: none. */
  readonly sparseAttention?: number | undefined;
  readonly threads?: number | undefined;
  readonly tokensPerSquare?: number | undefined;
  /** Default 1024 (256 without a GPU), and 64; never more rows than `tokensPerSquare`. */
  readonly mostBatchSize?: number | undefined;
  readonly mostBatches?: number | undefined;
}

/** The subject of a plan. */
export interface PlanRequest {
  readonly hardware: HardwareProfile;
  readonly shape: ModelShape;
  readonly workload: Workload;
  readonly caps?: MemoryCaps | undefined;
  readonly allow?: Allowed | undefined;
  /** One that is there by its name, or a caller's own. Default spillway. */
  readonly costModel?: CostModelName | CostModel | undefined;
  /**
   * Most seconds that a block may take from its first prompt to its last token, by itself. Default: any. Of what is
   * searched; a policy that is given is predicted whatever it takes.
   */
  readonly maxLatencySeconds?: number | undefined;
}

/** A cap may be infinite. */
const cap = z
  .custom<number>((value) => typeof value === 'number' && value >= 0, {
    error: 'expected a number of bytes of at least 0',
  })
  .optional();
export const capsSchema: z.ZodType<MemoryCaps> = z.strictObject({ gpu: cap, cpu: cap, disk: cap });
const { batchSize, batches, threads, tokensPerSquare } = BLOCK_BOUNDS;

/** Tells whether a value may be a cost model of a caller's own: the names of those that are there mean what they do. */
function isOwnModel(value: unknown): value is CostModel {
  // Methods may be inherited.
  const members = membersOf(value);
  const { name, schedules, cpuAttention = [true] } = members;
  return (
    typeof name === 'string' &&
    name !== '' &&
    !(COST_MODEL_NAMES as readonly string[]).includes(name) &&
    isListOf(schedules, (each) => (SCHEDULE_NAMES as readonly unknown[]).includes(each)) &&
    isListOf(cpuAttention, (each) => typeof each === 'boolean') &&
    (['blocks', 'blockAt', 'shareStep'] as const).every((each) => typeof members[each] === 'function')
  );
}

function isListOf(value: unknown, isOne: (each: unknown) => boolean): boolean {
  return Array.isArray(value) && value.length > 0 && value.every(isOne);
}

const costModelSchema = z.custom<CostModelName | CostModel>(
  (value) => (COST_MODEL_NAMES as readonly unknown[]).includes(value) || isOwnModel(value),
  {
    error: `expected one of ${COST_MODEL_NAMES.join(', ')}, or a cost model of another name: { name, schedules, blocks, blockAt, shareStep }`,
  },
);

const requestSchema: z.ZodType<PlanRequest> = z.strictObject({
  hardware: profileSchema,
  shape: shapeSchema,
  workload: workloadSchema,
  caps: capsSchema.optional(),
  allow: z
    .strictObject({
      schedules: z.array(z.enum(SCHEDULE_NAMES)).min(1).optional(),
      batchSize: batchSize.optional(),
      batches: batches.optional(),
      compressWeights: z.array(z.enum(COMPRESSIONS)).min(1).optional(),
      compressCache: z.array(z.enum(COMPRESSIONS)).min(1).optional(),
      cpuAttention: z.array(cpuAttentionSchema).min(1).optional(),
      sparseAttention: SPARSE_ATTENTION.optional(),
      threads: threads.optional(),
      tokensPerSquare: tokensPerSquare.optional(),
      mostBatchSize: batchSize.optional(),
      mostBatches: batches.optional(),
    })
    .optional(),
  costModel: costModelSchema.optional(),
  maxLatencySeconds: z.number().positive().optional(),
});

/**
 * A request by somebody who may have put anything into it. Done once, where it comes in: what costs plans by the
 * thousand relies on it.
 * @throws UsageError naming the field, what was found and what was expected
 */
export function parseRequest(value: PlanRequest): PlanRequest {
  const request = parsedArgument(requestSchema, value, 'request');
  const { workload, shape, costModel = 'spillway' } = request;
  const { promptTokens, sharedPrefixTokens = 0 } = workload;
  if (typeof costModel === 'string' && costModel !== 'spillway' && shape.experts !== undefined)
    throw new UsageError(
      `costModel: found ${costModel} for ${shape.name} with ${shape.experts.count} experts, expected spillway: the papers' models know dense models alone`,
    );
  const { sparseAttention = 1 } = request.allow ?? {};
  if (typeof costModel === 'string' && costModel !== 'spillway' && sparseAttention < 1)
    throw new UsageError(
      `costModel: found ${costModel} for sparse attention, expected spillway: the papers' models cost all values`,
    );
  if (sharedPrefixTokens >= promptTokens)
    throw new UsageError(
      `sharedPrefixTokens: found ${sharedPrefixTokens}, expected fewer than \`promptTokens\`, ${promptTokens}: a row's last token is its own`,
    );
  checkContext(workload, shape);
  const { batchSize: rows = 1, tokensPerSquare: square = Infinity } = request.allow ?? {};
  if (rows > square)
    throw new UsageError(
      `allow.batchSize: found ${rows}, expected at most \`allow.tokensPerSquare\`, ${square}: every row has a token in a square`,
    );
  return request;
}

/** Gives the name of a cost model. */
export function nameOf(costModel: CostModelName | CostModel): string {
  return typeof costModel === 'string' ? costModel : costModel.name;
}

/** Most rows of a batch that are searched: every row has a token in a square. @param usual where nobody says */
export function mostBatchSizeOf(
  { mostBatchSize, tokensPerSquare = Infinity }: Pick<Allowed, 'mostBatchSize' | 'tokensPerSquare'>,
  usual: number,
): number {
  return Math.min(mostBatchSize ?? usual, tokensPerSquare);
}

/** @throws UsageError for rows that are longer than the model's context */
export function checkContext(
  { promptTokens, newTokens }: Pick<Workload, 'promptTokens' | 'newTokens'>,
  { contextTokens }: ModelShape,
): void {
  if (promptTokens + newTokens > contextTokens + 1) {
    throw new UsageError(
      `\`promptTokens\` and \`newTokens\`: found ${promptTokens} + ${newTokens}, but the model's context is ${contextTokens} tokens`,
    );
  }
}

/**
 * The machine with no more memory than the caps leave. A tier that is capped at 0 is not there.
 * @throws UsageError for caps that contradict the machine, or leave nothing to compute in
 */
export function cappedHardware(hardware: HardwareProfile, caps: MemoryCaps = {}): HardwareProfile {
  const { memory, usableFraction } = hardware;
  const limit = (have: number, most: number | undefined, tier: string): number => {
    if (most === undefined) return have;
    if (most > 0 && have === 0)
      throw new UsageError(
        `${tier} memory: found a cap of ${most} bytes, but hardware ${JSON.stringify(hardware.name)} has no ${tier} tier: leave it out`,
      );
    // A cap is what the user gives; the share that is lost is lost of the machine's own memory.
    return Math.min(have, most / usableFraction);
  };
  const cpuBytes = limit(memory.cpuBytes, caps.cpu, 'cpu');
  if (cpuBytes <= 0)
    throw new UsageError(
      'cpu memory: found a cap of 0 bytes, expected more: prompts, results and whatever is under way need some',
    );
  return {
    ...hardware,
    memory: {
      gpuBytes: limit(memory.gpuBytes, caps.gpu, 'gpu'),
      cpuBytes,
      diskBytes: limit(memory.diskBytes, caps.disk, 'disk'),
    },
  };
}

/** Bytes of each tier that a plan may fill. */
export function usableBytes({ memory, usableFraction }: HardwareProfile): Readonly<Record<Tier, number>> {
  return {
    gpu: memory.gpuBytes * usableFraction,
    cpu: memory.cpuBytes * usableFraction,
    disk: memory.diskBytes * usableFraction,
  };
}
