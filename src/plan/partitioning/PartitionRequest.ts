import * as z from 'zod';
import { UsageError } from '../../errors/UsageError.js';
import { shapeSchema, type ModelShape } from '../ModelShape.js';
import { parsedArgument } from '../parsed.js';
import { checkContext } from '../PlanRequest.js';
import { chipSchema, MOST_CHIPS, type ChipProfile } from './ChipProfile.js';
import {
  ATTENTION_SHARDINGS,
  LAYOUT_NAMES,
  WEIGHT_FORMATS,
  type AttentionSharding,
  type LayoutName,
  type WeightFormat,
} from './Partitioning.js';

/** The case to split a model over chips for. */
export interface PartitionRequest {
  readonly chip: ChipProfile;
  /** A name of `chip.interconnects`. Default: the first one. */
  readonly interconnect?: string | undefined;
  /** A dense model; `residual: 'parallel'` computes attention and feed-forward block side by side. */
  readonly shape: ModelShape;
  readonly workload: { readonly promptTokens: number; readonly newTokens: number };
  /** How many chips. Default auto: 1, 2, 4, … 256, nodes and what divides them. */
  readonly chips?: number | 'auto' | undefined;
  /** Rows that share a pass. Default: 1, 2, 4, … 1024. */
  readonly batchSize?: number | undefined;
  /** Default bfloat16. int8 changes results a little. */
  readonly weights?: readonly WeightFormat[] | undefined;
  /** Default: all. */
  readonly layouts?: readonly LayoutName[] | undefined;
  /** Default: both. */
  readonly attention?: readonly AttentionSharding[] | undefined;
  /** Most seconds from a batch's first prompt to its last token. Default: any. */
  readonly maxLatencySeconds?: number | undefined;
}

/** Rows that share a pass, at most. */
const MOST_ROWS = 65_536;

const count = z.int().min(1);
const requestSchema: z.ZodType<PartitionRequest> = z.strictObject({
  chip: chipSchema,
  interconnect: z.string().optional(),
  shape: shapeSchema,
  workload: z.strictObject({ promptTokens: count, newTokens: count }),
  chips: z
    .union([z.int().min(1).max(MOST_CHIPS), z.literal('auto')], {
      error: 'expected a whole number of at least 1, or auto',
    })
    .optional(),
  batchSize: count.max(MOST_ROWS).optional(),
  weights: z
    .array(z.enum(Object.keys(WEIGHT_FORMATS) as WeightFormat[]))
    .min(1)
    .optional(),
  layouts: z.array(z.enum(LAYOUT_NAMES)).min(1).optional(),
  attention: z.array(z.enum(ATTENTION_SHARDINGS)).min(1).optional(),
  maxLatencySeconds: z.number().positive().optional(),
});

/**
 * A request by somebody who may have put anything into it.
 * @throws UsageError naming the field, what was found and what was expected
 */
export function parsePartitionRequest(value: PartitionRequest): PartitionRequest & { readonly interconnect: string } {
  const request = parsedArgument(requestSchema, value, 'request');
  const { chip, shape, workload } = request;
  const names = Object.keys(chip.interconnects);
  const interconnect = request.interconnect ?? names[0] ?? '';
  if (!Object.hasOwn(chip.interconnects, interconnect))
    throw new UsageError(
      `interconnect: found ${JSON.stringify(interconnect)}, expected one that ${chip.name} has: ${names.join(', ')}`,
    );
  if (shape.experts !== undefined)
    throw new UsageError(
      `model: found ${shape.name} with ${shape.experts.count} experts, expected a dense model: how experts are split over chips is not known here`,
    );
  checkContext(workload, shape);
  return { ...request, interconnect };
}
