import { drained, type Work } from '../../collections/drained.js';
import { UsageError } from '../../errors/UsageError.js';
import { BLOCK_SCHEDULES, type ScheduleName } from '../../engine/schedules/blockSchedules.js';
import { COST_MODELS } from '../costModels.js';
import { mostBatchSizeOf, usableBytes, type PlanRequest } from '../PlanRequest.js';
import type { ComputeTier } from '../../engine/grid/Tier.js';
import { formatBytes } from '../../units.js';
import { tokensPerSquareOf } from '../Policy.js';
import { divideLayers } from './divideLayers.js';
import {
  microBatchesOf,
  pipelineOfStages,
  stageSeconds,
  type MicroBatches,
  type PipelinePlan,
} from './pipelineOfStages.js';
import {
  parsePipelineRequest,
  settledBlock,
  type ParsedPipelineRequest,
  type PipelineRequest,
} from './PipelineRequest.js';
import { bestStage, stageCost, type StageCost, type StageSetting } from './stageCost.js';

/** Rows of a micro-batch that are tried. */
const BATCH_SIZES = [1, 4, 8, 16, 32, 64, 128, 256];

/**
 * Tokens of a square that are tried beside the default: a pipeline is filled with prompts once for each block of rows,
 * which takes as long as the chunk that the last machine waits for.
 */
const CHUNKS = [256, 128, 64];

/**
 * Divides a model's layers over machines by what they are measured to do, unequal ones too, and finds the micro-batches
 * that keep them busy: the fastest of the sizes that are tried, prompts in chunks where that is faster. Pure.
 *
 * Each engine has room for all micro-batches, and reads weights that stream once for each of these: one for each batch,
 * or as many as machines are tried. A round, in which each micro-batch advances once, takes as long as the slowest
 * engine or link takes for all of them, or one of them takes to go round all engines and links, whichever is longer.
 *
 * @throws UsageError for a request that makes no sense, and for machines that do not hold the model together
 */
export function planPipeline(given: PipelineRequest): PipelinePlan {
  return drained(planPipelineInParts(given));
}

/** The same in slices, between which others may have their turn. */
export function* planPipelineInParts(given: PipelineRequest): Work<PipelinePlan> {
  const request = parsePipelineRequest(given);
  const { machines, shape, allow = {} } = request;
  checkSettled(request);
  const schedule = allow.schedules?.[0] ?? 'diagonal';
  if (BLOCK_SCHEDULES[schedule].sweep === 'one-slot')
    throw new UsageError(`schedules: found ${schedule}, which has one batch at a time, expected zigzag or diagonal`);
  const gpus = machines.every(({ hardware }) => hardware.memory.gpuBytes > 0);
  let best: PipelinePlan | undefined;
  for (const cacheOn of gpus ? (['gpu', 'cpu'] as const) : (['cpu'] as const)) {
    const plan = yield* bestOf(request, { schedule, cacheOn });
    if (plan && !(best && best.tokensPerSecond >= plan.tokensPerSecond)) best = plan;
  }
  if (best) return best;
  const bytes = machines.reduce((sum, { hardware }) => sum + usableBytes(hardware).cpu + usableBytes(hardware).gpu, 0);
  const { batchSize = 1, batches = machines.length } = allow;
  throw new UsageError(
    `machines: found ${machines.length} with ${formatBytes(bytes)} of memory together, which do not hold ${shape.name} with ${batches} batches of ${batchSize} rows, expected larger ones, or more of them`,
  );
}

/**
 * Refuses what is searched on one machine, and not on several.
 * @throws UsageError naming what was left open, or bounded
 */
function checkSettled({ allow = {}, maxLatencySeconds }: Pick<PlanRequest, 'allow' | 'maxLatencySeconds'>): void {
  const { schedules, compressWeights, compressCache, cpuAttention } = allow;
  for (const [name, found] of Object.entries({ schedules, compressWeights, compressCache, cpuAttention }))
    if (found !== undefined && (found.length > 1 || name === 'cpuAttention'))
      throw new UsageError(
        `allow.${name}: found ${found.join(', ')}, expected ${name === 'cpuAttention' ? 'none' : 'one of them'} for several machines`,
      );
  if (maxLatencySeconds !== undefined)
    throw new UsageError(`maxLatencySeconds: found ${maxLatencySeconds}, expected none for several machines`);
}

/** The smaller of several plans that are about as fast answers sooner. */
const CLEARLY = 1.01;

/** As many as machines fill the pipeline; some more hide latency, and even out what is unequal. */
function countsFor(machines: number): readonly number[] {
  return [machines, machines + 1, 2 * machines];
}

type Settled = Pick<BlockOfBatches, 'schedule' | 'cacheOn'>;

/** The best size and number of micro-batches, their squares and division; undefined where nothing fits. */
function* bestOf(request: ParsedPipelineRequest, settled: Settled): Work<PipelinePlan | undefined> {
  const { machines, workload, allow = {} } = request;
  const { rows = Infinity } = workload;
  let best: PipelinePlan | undefined;
  const { mostBatches = Infinity } = allow;
  const sizes = BATCH_SIZES.filter((size) => size <= mostBatchSizeOf(allow, Infinity));
  const counts = countsFor(machines.length).filter((count) => count <= mostBatches);
  for (const batchSize of allow.batchSize === undefined ? sizes : [allow.batchSize]) {
    const divisions = new Map<number | undefined, readonly number[]>();
    for (const batches of allow.batches === undefined ? counts : [allow.batches]) {
      if (best && batches * batchSize > rows) break;
      const plans: PipelinePlan[] = [];
      for (const [tokensPerSquare, why] of squaresFor(request, batchSize)) {
        if (why === 'to fit' && plans.some(inMemory)) continue;
        const division = divisions.get(tokensPerSquare);
        const plan = yield* planOf(request, { ...settled, batchSize, batches, tokensPerSquare, division });
        if (!plan) continue;
        divisions.set(tokensPerSquare, layersOf(plan));
        plans.push(plan);
      }
      // Of more rows than those that do not fit, none do.
      if (plans.length === 0) break;
      for (const plan of plans) if (!best || plan.tokensPerSecond > best.tokensPerSecond * CLEARLY) best = plan;
    }
    if (divisions.size === 0) break;
  }
  return best;
}

function inMemory({ stages }: PipelinePlan): boolean {
  return stages.every(({ policy: { weights, cache } }) => weights.disk === 0 && cache.disk === 0);
}

function layersOf({ stages }: PipelinePlan): number[] {
  return stages.map(({ layers }) => layers.count);
}

/**
 * Tokens of a square, with a token of each row: the default, smaller ones to be faster, which parts whole prompts of
 * all rows, and to fit where none does without a disk, since room is for squares that are full.
 */
function squaresFor(
  { workload, allow = {} }: Pick<ParsedPipelineRequest, 'workload' | 'allow'>,
  batchSize: number,
): readonly (readonly [number | undefined, 'to be fast' | 'to fit'])[] {
  if (allow.tokensPerSquare !== undefined) return [[allow.tokensPerSquare, 'to be fast']];
  const most = tokensPerSquareOf({ batchSize });
  const smaller = CHUNKS.filter((tokens) => tokens >= batchSize && tokens < most);
  return [
    [undefined, 'to be fast'],
    ...smaller.map((tokens) => [tokens, tokens < batchSize * workload.promptTokens ? 'to be fast' : 'to fit'] as const),
  ];
}

interface BlockOfBatches {
  readonly schedule: ScheduleName;
  readonly batchSize: number;
  readonly batches: number;
  readonly tokensPerSquare: number | undefined;
  /** Layers of each stage that suited others of the size, and will suit these, unless they do not fit. */
  readonly division: readonly number[] | undefined;
  readonly cacheOn: ComputeTier;
}

/** The best division for micro-batches of a size; undefined where the machines do not hold them. */
function* planOf(
  request: ParsedPipelineRequest,
  { schedule, batchSize, batches, tokensPerSquare, division, cacheOn }: BlockOfBatches,
): Work<PipelinePlan | undefined> {
  const { machines, shape, workload, allow = {} } = request;
  const block = {
    schedule,
    batchSize,
    batches,
    ...settledBlock(allow),
    ...(tokensPerSquare !== undefined && { tokensPerSquare }),
  };
  const micro = microBatchesOf(workload, { ...block, cpuAttention: true }, batches);
  const settingOf = (stage: number, layers: number, { alone, count }: MicroBatches): StageSetting | undefined => {
    const { hardware } = machines[stage] ?? {};
    const [embeds, samples] = [stage === 0, stage === machines.length - 1];
    return hardware && { hardware, shape, layers, embeds, samples, workload, alone, microBatches: count };
  };
  // Machines that are alike are costed once.
  const kinds = machines.map(({ hardware }) => JSON.stringify(hardware));
  const known = new Map<string, StageCost | undefined>();
  const costOf = (stage: number, layers: number): StageCost | undefined => {
    const setting = settingOf(stage, layers, micro);
    if (!setting) return undefined;
    const key = `${kinds.indexOf(kinds[stage] ?? '')} ${setting.embeds} ${setting.samples} ${layers}`;
    if (!known.has(key)) known.set(key, bestStage(COST_MODELS.spillway, setting, block, cacheOn));
    return known.get(key);
  };
  const counts = division?.every((layers, stage) => costOf(stage, layers))
    ? division
    : yield* divideLayers(shape.layers, machines.length, (stage, layers) => {
        const cost = costOf(stage, layers);
        return cost && stageSeconds(micro, cost);
      });
  if (!counts) return undefined;
  yield;
  const costs = counts.flatMap((layers, stage) => costOf(stage, layers) ?? []);
  const { atOnce, inTurn } = pipelineOfStages(request, micro, counts, costs);
  const plans = [atOnce, inTurn];
  // Of weights that stream, the batches of a micro-batch share each reading.
  if (batches > machines.length && batches % machines.length === 0) {
    const fewer = microBatchesOf(workload, { ...block, cpuAttention: true }, machines.length);
    const shared = costs.flatMap(({ policy }, stage) => {
      const setting = settingOf(stage, counts[stage] ?? 0, fewer);
      return setting ? stageCost(COST_MODELS.spillway, setting, policy) : [];
    });
    plans.push(pipelineOfStages(request, fewer, counts, shared).atOnce);
  }
  return plans.reduce((best, plan) => (plan.wallSeconds < best.wallSeconds ? plan : best));
}
