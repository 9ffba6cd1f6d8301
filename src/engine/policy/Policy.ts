import { z } from 'zod';
import { PlanFileError } from '../../errors/PlanFileError.js';
import { issueWords } from './issueWords.js';
import type { PlacementShares } from './Placement.js';

export const SCHEDULE_NAMES = ['row', 'zigzag', 'diagonal'] as const;
export type ScheduleName = (typeof SCHEDULE_NAMES)[number];
export const COMPRESSIONS = ['none', '8bit', '4bit'] as const;
export type Compression = (typeof COMPRESSIONS)[number];

/** What is decided before the placement: the block's size and order, and what is compressed. */
export interface BlockChoice {
  readonly schedule: ScheduleName;
  /** Rows of one batch: FlexGen's GPU batch size. */
  readonly batchSize: number;
  /** Batches that share one sweep over the layers. */
  readonly batches: number;
  readonly compressWeights: Compression;
  readonly compressCache: Compression;
  /** Attention over what of the cache is not on the GPU happens on the CPU, and the cache stays where it is. Always so without a GPU. */
  readonly cpuAttention: boolean;
  /** Compute threads of the CPU. Default: those that the hardware was measured with. */
  readonly threads?: number | undefined;
  /** Most tokens of one square. Default: 512, or the batch size if that is more. */
  readonly tokensPerSquare?: number | undefined;
}

/** A whole policy: the object `policy` of `plan --json`. */
export interface Policy extends BlockChoice, PlacementShares {}

/** A share that was computed as the rest of others may be off by rounding. */
const ROUNDING = 1e-9;
const share = z.number().min(-ROUNDING).max(1 + ROUNDING).transform((value) => Math.min(1, Math.max(0, value)));
const shares = z.strictObject({ gpu: share.default(0), cpu: share.default(0), disk: share.default(0) })
  .refine(({ gpu, cpu, disk }) => Math.abs(gpu + cpu + disk - 1) <= 1e-6, { error: 'expected shares gpu, cpu and disk that sum to 1' });
const onCpu = { gpu: 0, cpu: 1, disk: 0 };

const policySchema = z.strictObject({
  schedule: z.enum(SCHEDULE_NAMES).default('zigzag'),
  batchSize: z.int().min(1).max(4096).default(1),
  batches: z.int().min(1).max(256).default(1),
  weights: shares.default(onCpu),
  cache: shares.default(onCpu),
  activations: shares.default(onCpu),
  compressWeights: z.enum(COMPRESSIONS).default('none'),
  compressCache: z.enum(COMPRESSIONS).default('none'),
  cpuAttention: z.boolean().default(true),
  threads: z.int().min(1).max(1024).optional(),
  tokensPerSquare: z.int().min(1).max(65_536).optional(),
});

/**
 * A policy from JSON that nobody vouches for; what `plan --json` printed under `policy` is one. Omitted fields: zigzag, one batch of one row,
 * everything in CPU memory, nothing compressed, attention on the CPU.
 * @param file for messages
 * @throws PlanFileError
 */
export function parsePolicy(value: unknown, file: string): Policy {
  const parsed = policySchema.safeParse(value);
  if (parsed.success) return parsed.data;
  const { field, found, expected } = issueWords(parsed.error, value);
  throw new PlanFileError(file, field, found, expected);
}

/** Tokens of a square where a policy does not say. */
export function tokensPerSquareOf({ tokensPerSquare, batchSize }: BlockChoice): number {
  return tokensPerSquare ?? Math.max(512, batchSize);
}

/** Bytes that each byte of a 16-bit value becomes: group-wise with a 16-bit scale and minimum for each 64 values (FlexGen, section 5). */
export function compressedBits(compression: Compression, bits: number): number {
  return compression === 'none' ? bits : Math.min(bits, (compression === '4bit' ? 4 : 8) + 0.5);
}
