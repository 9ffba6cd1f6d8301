import * as z from 'zod';
import { BLOCK_SCHEDULES, SCHEDULE_NAMES, type ScheduleName } from '../engine/schedules/blockSchedules.js';
import { parsedArgument, parsedFile } from './parsed.js';
import type { PlacementShares } from './Placement.js';
import { UNPREDICTED_CHECKS, type UnpredictedOptions } from './unpredicted.js';

/** The most that there may be of each, whoever asks for it: an option, a policy, a flag. The least is 1. */
export const BLOCK_LIMITS = {
  batchSize: 4096,
  batches: 256,
  threads: 1024,
  tokensPerSquare: 65_536,
  latencySeconds: 1e9,
} as const;

export const COMPRESSIONS = ['none', '8bit', '4bit'] as const;
export type Compression = (typeof COMPRESSIONS)[number];

/** The choices that are made before the placement: the block's size and order, and what is compressed. */
export interface BlockChoice {
  readonly schedule: ScheduleName;
  /** Rows of one batch: FlexGen's GPU batch size. */
  readonly batchSize: number;
  /** Batches that share one sweep over the layers. */
  readonly batches: number;
  readonly compressWeights: Compression;
  readonly compressCache: Compression;
  /**
   * Attention over what of the cache is not on the GPU happens on the CPU, and the cache stays where it is; else it
   * comes to the GPU. A share, above 0 and below 1: of a row's pages that are not there the last ones, so many of them,
   * stay for the CPU, and those before come. Always true without a GPU.
   */
  readonly cpuAttention: boolean | number;
  /** The share of the keys before them whose values generated tokens take, those of highest score. Default: 1. */
  readonly sparseAttention?: number | undefined;
  /** Compute threads of the CPU. Default: those that the hardware was measured with. */
  readonly threads?: number | undefined;
  /** Most tokens of one square. Default: 512, or the batch size if that is more. */
  readonly tokensPerSquare?: number | undefined;
}

/** A whole policy: the object `policy` of `plan --json`, and of a run's statistics. */
export interface Policy extends BlockChoice, PlacementShares, UnpredictedOptions {}

/** A share that was computed as the rest of others may be off by rounding. */
const ROUNDING = 1e-9;
const share = z
  .number()
  .refine((value) => value >= -ROUNDING && value <= 1 + ROUNDING, { error: 'expected a number from 0 to 1' })
  .transform((value) => Math.min(1, Math.max(0, value)));
export const sharesSchema = z
  .strictObject({ gpu: share.default(0), cpu: share.default(0), disk: share.default(0) })
  .refine(({ gpu, cpu, disk }) => Math.abs(gpu + cpu + disk - 1) <= 1e-6, {
    error: 'expected shares gpu, cpu and disk that sum to 1',
  });
const onCpu = { gpu: 0, cpu: 1, disk: 0 };
export const cpuAttentionSchema = z
  .union([z.boolean(), share], { error: 'expected true, false, or a share from 0 to 1' })
  .transform((value) => (value === 0 || value === 1 ? value === 1 : value));

export const SPARSE_ATTENTION = z.number().positive().max(1);

/** Bounds of what a block is made of. */
export const BLOCK_BOUNDS = {
  batchSize: z.int().min(1).max(BLOCK_LIMITS.batchSize),
  batches: z.int().min(1).max(BLOCK_LIMITS.batches),
  threads: z.int().min(1).max(BLOCK_LIMITS.threads),
  tokensPerSquare: z.int().min(1).max(BLOCK_LIMITS.tokensPerSquare),
};

const policySchema = z.strictObject({
  schedule: z.enum(SCHEDULE_NAMES).default('zigzag'),
  batchSize: BLOCK_BOUNDS.batchSize.default(1),
  batches: BLOCK_BOUNDS.batches.default(1),
  weights: sharesSchema.default(onCpu),
  cache: sharesSchema.default(onCpu),
  activations: sharesSchema.default(onCpu),
  compressWeights: z.enum(COMPRESSIONS).default('none'),
  compressCache: z.enum(COMPRESSIONS).default('none'),
  cpuAttention: cpuAttentionSchema.default(true),
  sparseAttention: SPARSE_ATTENTION.optional(),
  threads: BLOCK_BOUNDS.threads.optional(),
  tokensPerSquare: BLOCK_BOUNDS.tokensPerSquare.optional(),
  ...UNPREDICTED_CHECKS,
});

/**
 * A policy from JSON that nobody vouches for; what `plan --json` and `--stats` wrote under `policy` is one.
 * Omitted fields: zigzag, one batch of one row, everything in CPU memory, nothing compressed, attention on the CPU.
 * @param file for messages
 * @throws PlanFileError
 */
export function parsePolicy(value: unknown, file: string): Policy {
  return parsedFile(policySchema, value, file);
}

/**
 * A policy by somebody who may have put anything into it; omitted fields as in a file.
 * @throws UsageError naming the field, what was found and what was expected
 */
export function policyArgument(value: Policy): Policy {
  return parsedArgument(policySchema, value, 'policy');
}

/** Gives the share that the CPU attends to of the cache that is not on the GPU. */
export function hostShare({ cpuAttention }: Pick<BlockChoice, 'cpuAttention'>): number {
  return Number(cpuAttention);
}

/** Batches that share a sweep. */
export function slotsOf({ schedule, batches }: Pick<BlockChoice, 'schedule' | 'batches'>): number {
  return BLOCK_SCHEDULES[schedule].sweep === 'one-slot' ? 1 : batches;
}

/** Tells whether a row that has ended makes place for the next one at once, so that rows of all ages share a sweep. */
export function refillsAtOnce({ schedule }: Pick<BlockChoice, 'schedule'>): boolean {
  return BLOCK_SCHEDULES[schedule].refill === 'at-once';
}

/** Tokens of a square where a policy does not say. */
export function tokensPerSquareOf({
  tokensPerSquare,
  batchSize,
}: Pick<BlockChoice, 'tokensPerSquare' | 'batchSize'>): number {
  return tokensPerSquare ?? Math.max(512, batchSize);
}

/**
 * Bytes that each byte of a 16-bit value becomes: group-wise with a 16-bit scale and minimum for each 64 values
 * (FlexGen, section 5).
 */
export function compressedBits(compression: Compression, bits: number): number {
  return compression === 'none' ? bits : Math.min(bits, (compression === '4bit' ? 4 : 8) + 0.5);
}

/**
 * A policy from what `plan --json` printed or `--stats` wrote: the whole document, or its `policy` alone.
 * @param file for messages
 * @throws PlanFileError
 */
export function parsePolicyDocument(document: object, file: string): Policy {
  return parsePolicy(('policy' in document ? document.policy : undefined) ?? document, file);
}
