import * as z from 'zod';
import { UsageError } from '../../errors/UsageError.js';
import { BLOCK_SCHEDULES, type ScheduleName } from '../../engine/schedules/blockSchedules.js';
import { COST_MODELS } from '../costModels.js';
import { profileSchema } from '../HardwareProfile.js';
import { countSweeps, rowsOf } from '../model/countSweeps.js';
import { parsedArgument } from '../parsed.js';
import { cappedHardware, capsSchema, parseRequest, usableBytes, type PlanRequest } from '../PlanRequest.js';
import type { Policy } from '../Policy.js';
import type { Workload } from '../Workload.js';
import type { ComputeTier, Tier } from '../../engine/grid/Tier.js';
import { formatBytes } from '../../units.js';
import { HIDDEN_STATE_BYTES, HIDDEN_STATES, type HiddenStates } from '../../engine/grid/HiddenStates.js';
import { divideLayers } from './divideLayers.js';
import { linkSchema, machineNameSchema, type PipelineMachine } from './Machines.js';
import { pipelineSeconds, type PipelineSeconds } from './pipelineSeconds.js';
import { stageCost, type StageCost } from './stageCost.js';

/** What a pipeline over machines is planned for: a request like any other, but for the machines. */
export interface PipelineRequest extends Omit<PlanRequest, 'hardware' | 'caps'> {
  /** In the order of the layers. */
  readonly machines: readonly PipelineMachine[];
  /** How hidden states cross the links. Default float32. */
  readonly hiddenStates?: HiddenStates | undefined;
}

/** An engine of some of the layers. */
export interface PlannedStage {
  readonly machine: string;
  readonly layers: { readonly first: number; readonly count: number };
  /** What of them is where. */
  readonly policy: Policy;
  readonly memoryBytes: Readonly<Record<Tier, number>>;
  /** Seconds in which it computes or moves; the rest of the time it waits for its neighbours. */
  readonly busySeconds: number;
  readonly idleShare: number;
  /** Seconds in which the link behind it is taken by hidden states. */
  readonly linkSeconds: number;
}

/** How layers are divided over machines, and how fast that is. */
export interface PipelinePlan {
  readonly model: string;
  readonly workload: Workload;
  /** Rows of a batch, and how many of these there are: `--batch-size` and `--batches` of every engine. */
  readonly batchSize: number;
  readonly batches: number;
  /** As many as batches; 1 where engines in turn are faster: weights that stream then serve all batches at once. */
  readonly microBatches: number;
  /** In the order of the layers. */
  readonly stages: readonly PlannedStage[];
  /** New tokens of all rows, over `wallSeconds`. */
  readonly tokensPerSecond: number;
  readonly wallSeconds: number;
  /** Those of the workload, or of some blocks where their number is open. */
  readonly rows: number;
  /** The same engines where all batches share each sweep: one engine computes while the others wait. */
  readonly inTurnTokensPerSecond: number;
  /** What the time is spent on: the name of a machine, of the link behind one, or `latency` where more micro-batches
   * would help. */
  readonly bottleneck: string;
}

/** Rows of a micro-batch that are tried. */
const BATCH_SIZES = [1, 4, 8, 16, 32, 64, 128, 256];

const machinesSchema = z
  .array(
    z.strictObject({
      name: machineNameSchema,
      hardware: profileSchema,
      caps: capsSchema.optional(),
      link: linkSchema,
    }),
  )
  .min(2);

/**
 * Divides a model's layers over machines by what they are measured to do, unequal ones too, and finds the micro-batches
 * that keep them busy: the fastest of the sizes that are tried. Pure.
 *
 * Each engine has room for all micro-batches, and reads weights that stream once for each. A round, in which each
 * micro-batch advances once, takes as long as the slowest engine or link takes for all of them, or one of them takes to
 * go round all engines and links, whichever is longer.
 *
 * @throws UsageError for a request that makes no sense, and for machines that do not hold the model together
 */
export function planPipeline({ machines: given, hiddenStates = 'float32', ...rest }: PipelineRequest): PipelinePlan {
  parsedArgument(z.enum(HIDDEN_STATES), hiddenStates, 'hiddenStates');
  const machines = parsedArgument(machinesSchema, given, 'machines').map(({ hardware, caps = {}, ...machine }) => ({
    ...machine,
    hardware: cappedHardware(hardware, caps),
  }));
  const [first] = machines;
  if (!first) throw new UsageError('machines: found none, expected at least two');
  const request = parseRequest({ ...rest, hardware: first.hardware });
  const { shape, workload, allow = {}, costModel = 'spillway' } = request;
  if (costModel !== 'spillway')
    throw new UsageError(`costModel: found ${costModel}, expected spillway for several machines`);
  if ((workload.sharedPrefixTokens ?? 0) > 0)
    throw new UsageError(
      `sharedPrefixTokens: found ${workload.sharedPrefixTokens}, expected 0 for several machines: what rows share is not predicted there`,
    );
  if (shape.layers < machines.length)
    throw new UsageError(
      `machines: found ${machines.length}, expected at most the ${shape.layers} layers of the model`,
    );
  checkSettled(request);
  const schedule = allow.schedules?.[0] ?? 'diagonal';
  if (BLOCK_SCHEDULES[schedule].sweep === 'one-slot')
    throw new UsageError(`schedules: found ${schedule}, which has one batch at a time, expected zigzag or diagonal`);
  const gpus = machines.every(({ hardware }) => hardware.memory.gpuBytes > 0);
  const best = (gpus ? (['gpu', 'cpu'] as const) : (['cpu'] as const))
    .flatMap((cacheOn) => bestOf(request, machines, { schedule, cacheOn, hiddenStates }) ?? [])
    .reduce<PipelinePlan | undefined>((a, b) => (a && a.tokensPerSecond >= b.tokensPerSecond ? a : b), undefined);
  if (best) return best;
  const bytes = machines.reduce((sum, { hardware }) => sum + usableBytes(hardware).cpu + usableBytes(hardware).gpu, 0);
  const { batchSize = 1, batches = machines.length } = allow;
  throw new UsageError(
    `machines: found ${machines.length} with ${formatBytes(bytes)} of memory together, which do not hold ${shape.name} with ${batches} batches of ${batchSize} rows, expected larger ones, or more of them`,
  );
}

/**
 * What is searched on one machine, and not on several.
 * @throws UsageError naming what was left open, or bounded
 */
function checkSettled({ allow = {}, maxLatencySeconds }: PlanRequest): void {
  const { schedules, compressWeights, compressCache, cpuAttention } = allow;
  for (const [name, found] of Object.entries({ schedules, compressWeights, compressCache, cpuAttention }))
    if (found !== undefined && (found.length > 1 || name === 'cpuAttention'))
      throw new UsageError(
        `allow.${name}: found ${found.join(', ')}, expected ${name === 'cpuAttention' ? 'none' : 'one of them'} for several machines`,
      );
  if (maxLatencySeconds !== undefined)
    throw new UsageError(`maxLatencySeconds: found ${maxLatencySeconds}, expected none for several machines`);
}

/** Of plans that are about as fast, the smaller one answers sooner. */
const CLEARLY = 1.01;

/** As many as machines fill the pipeline; some more hide latency, and even out what is unequal. */
function countsFor(machines: number): readonly number[] {
  return [machines, machines + 1, 2 * machines];
}

type CappedMachine = Pick<PipelineMachine, 'name' | 'hardware' | 'link'>;

type Settled = Pick<MicroBatches, 'schedule' | 'cacheOn' | 'hiddenStates'>;

/** The best size and number of micro-batches, and their division; undefined where nothing fits. */
function bestOf(request: PlanRequest, machines: readonly CappedMachine[], settled: Settled): PipelinePlan | undefined {
  const { workload, allow = {} } = request;
  const { rows = Infinity } = workload;
  let best: PipelinePlan | undefined;
  const { mostBatchSize = Infinity, mostBatches = Infinity } = allow;
  const sizes = BATCH_SIZES.filter((size) => size <= mostBatchSize);
  const counts = countsFor(machines.length).filter((count) => count <= mostBatches);
  for (const batchSize of allow.batchSize === undefined ? sizes : [allow.batchSize]) {
    let division: readonly number[] | undefined;
    for (const batches of allow.batches === undefined ? counts : [allow.batches]) {
      if (best && batches * batchSize > rows) break;
      const plan = planOf(request, machines, { ...settled, batchSize, batches, division });
      // Of more rows than those that do not fit, none do.
      if (!plan) break;
      division = plan.stages.map(({ layers }) => layers.count);
      if (!best || plan.tokensPerSecond > best.tokensPerSecond * CLEARLY) best = plan;
    }
    if (!division) break;
  }
  return best;
}

interface MicroBatches {
  readonly schedule: ScheduleName;
  readonly batchSize: number;
  readonly batches: number;
  /** Layers of each stage that suited fewer of them, and will suit these, unless they do not fit. */
  readonly division: readonly number[] | undefined;
  readonly cacheOn: ComputeTier;
  readonly hiddenStates: HiddenStates;
}

/** The best division for micro-batches of a size; undefined where the machines do not hold them. */
function planOf(
  { shape, workload, allow = {} }: PlanRequest,
  machines: readonly CappedMachine[],
  { schedule, batchSize, batches, division, cacheOn, hiddenStates }: MicroBatches,
): PipelinePlan | undefined {
  const block = {
    schedule,
    batchSize,
    batches,
    compressWeights: allow.compressWeights?.[0] ?? ('none' as const),
    compressCache: allow.compressCache?.[0] ?? ('none' as const),
    ...(allow.threads !== undefined && { threads: allow.threads }),
    ...(allow.tokensPerSquare !== undefined && { tokensPerSquare: allow.tokensPerSquare }),
  };
  // Rows are dealt out evenly.
  const alone =
    workload.rows === undefined ? workload : { ...workload, rows: Math.max(1, Math.ceil(workload.rows / batches)) };
  const single = { ...block, batches: 1, cpuAttention: true };
  const classes = countSweeps(alone, single);
  // Machines that are alike are costed once.
  const kinds = machines.map(({ hardware }) => JSON.stringify(hardware));
  const known = new Map<string, StageCost | undefined>();
  const costOf = (stage: number, layers: number): StageCost | undefined => {
    const { hardware } = machines[stage] ?? {};
    if (!hardware) return undefined;
    const [embeds, samples] = [stage === 0, stage === machines.length - 1];
    const key = `${kinds.indexOf(kinds[stage] ?? '')} ${embeds} ${samples} ${layers}`;
    if (!known.has(key))
      known.set(
        key,
        stageCost(COST_MODELS.spillway, { hardware, shape, layers, embeds, samples, workload, block, cacheOn }, alone),
      );
    return known.get(key);
  };
  const secondsOf = ({ sweepSeconds }: StageCost): number =>
    sweepSeconds.reduce((sum, each, index) => sum + each * (classes[index]?.sweeps ?? 0), 0);
  const counts = division?.every((layers, stage) => costOf(stage, layers))
    ? division
    : divideLayers(shape.layers, machines.length, (stage, layers) => {
        const cost = costOf(stage, layers);
        return cost && secondsOf(cost);
      });
  if (!counts) return undefined;
  const costs = counts.flatMap((layers, stage) => costOf(stage, layers) ?? []);
  const links = machines.map(({ link }) => link);
  const atOnce = pipelineSeconds(
    classes.map(({ sweeps, squares, load }, index) => ({
      sweeps,
      hiddenBytes:
        squares * (load.promptTokens + load.decodeRows) * shape.hiddenSize * HIDDEN_STATE_BYTES[hiddenStates],
      stages: costs.map(({ sweepSeconds }) => sweepSeconds[index] ?? 0),
    })),
    links,
    batches,
  );
  const sweeps = classes.reduce((sum, each) => sum + each.sweeps, 0);
  const latency = links.reduce((sum, { latencySeconds }) => sum + sweeps * latencySeconds, 0);
  const busyInTurn = costs.map(({ blockSeconds }) => blockSeconds);
  // The next engine has nothing to compute before hidden states have come: links take turns with the engines.
  const inTurn = {
    ...atOnce,
    busy: busyInTurn,
    waiting: latency,
    wall: [...busyInTurn, ...atOnce.links].reduce((sum, each) => sum + each, latency),
  };
  const seconds = inTurn.wall < atOnce.wall ? inTurn : atOnce;
  const rows = workload.rows ?? batches * rowsOf(alone, single);
  const newTokens = rows * workload.newTokens;
  return {
    model: shape.name,
    workload,
    batchSize,
    batches,
    microBatches: seconds === inTurn ? 1 : batches,
    stages: costs.map(({ policy, memoryBytes }, stage) => ({
      machine: machines[stage]?.name ?? '',
      layers: {
        first: counts.slice(0, stage).reduce((sum, count) => sum + count, 0),
        count: counts[stage] ?? 0,
      },
      policy,
      memoryBytes,
      busySeconds: seconds.busy[stage] ?? 0,
      idleShare: Math.max(0, 1 - (seconds.busy[stage] ?? 0) / seconds.wall),
      linkSeconds: seconds.links[stage] ?? 0,
    })),
    tokensPerSecond: newTokens / seconds.wall,
    wallSeconds: seconds.wall,
    rows,
    inTurnTokensPerSecond: newTokens / inTurn.wall,
    bottleneck: bottleneckOf(seconds, machines),
  };
}

/** Who is busiest; where everybody waits for micro-batches to come round most of the time, that. */
function bottleneckOf({ wall, busy, links, waiting }: PipelineSeconds, machines: readonly CappedMachine[]): string {
  if (waiting > wall / 2) return 'latency';
  const most = Math.max(...busy, ...links);
  const machine = machines[busy.indexOf(most)];
  return machine?.name ?? `the link behind ${machines[links.indexOf(most)]?.name ?? ''}`;
}
