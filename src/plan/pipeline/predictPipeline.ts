import * as z from 'zod';
import { UsageError } from '../../errors/UsageError.js';
import { BLOCK_SCHEDULES } from '../../engine/schedules/blockSchedules.js';
import { COST_MODELS } from '../costModels.js';
import { parsedArgument } from '../parsed.js';
import { policyArgument, type Policy } from '../Policy.js';
import { checkTiers } from '../predict.js';
import { unpredictedOf } from '../unpredicted.js';
import { microBatchesOf, pipelineOfStages, type PipelinePlan } from './pipelineOfStages.js';
import { parsePipelineRequest, type PipelineRequest } from './PipelineRequest.js';
import { stageCost } from './stageCost.js';

/** The settings of a pipeline beside the policy of its engines. */
export interface SettledPipeline {
  /**
   * That a block's batches are dealt out to, equally many each; those of one share each reading of the weights. With 1
   * the engines wait for each other. Default: one for each batch.
   */
  readonly microBatches?: number | undefined;
}

const settledSchema: z.ZodType<SettledPipeline> = z.strictObject({ microBatches: z.int().min(1).optional() });

/**
 * How fast machines are that share a model's layers equally and all have one policy, whether it fits or not: what
 * `predict` is on one machine. Pure.
 * @throws UsageError for a request or a policy that makes no sense
 */
export function predictPipeline(given: PipelineRequest, policy: Policy, settled: SettledPipeline = {}): PipelinePlan {
  const request = parsePipelineRequest(given);
  const { machines, shape, workload } = request;
  const block = policyArgument(policy);
  const [unpredicted] = unpredictedOf(block);
  if (unpredicted !== undefined)
    throw new UsageError(`policy: found ${unpredicted}, which no cost model knows: expected a policy without it`);
  const { microBatches = block.batches } = parsedArgument(settledSchema, settled, 'settled');
  if (BLOCK_SCHEDULES[block.schedule].sweep === 'one-slot')
    throw new UsageError(
      `policy: found the schedule ${block.schedule}, which has one batch at a time, expected zigzag or diagonal`,
    );
  if (block.batches % microBatches !== 0)
    throw new UsageError(`microBatches: found ${microBatches}, expected a divisor of the ${block.batches} batches`);
  const micro = microBatchesOf(workload, block, microBatches);
  const counts = machines.map(
    (_, stage) => Math.floor(shape.layers / machines.length) + Number(stage < shape.layers % machines.length),
  );
  const costs = machines.map(({ hardware }, stage) => {
    checkTiers(hardware, block);
    const setting = {
      hardware,
      shape,
      layers: counts[stage] ?? 0,
      embeds: stage === 0,
      samples: stage === machines.length - 1,
      workload,
      alone: micro.alone,
      microBatches,
    };
    return stageCost(COST_MODELS.spillway, setting, block);
  });
  const { atOnce, inTurn } = pipelineOfStages(request, micro, counts, costs);
  return microBatches === 1 ? inTurn : atOnce;
}
