import type { Tier } from '../../engine/grid/Tier.js';
import { HIDDEN_STATE_BYTES } from '../../engine/grid/HiddenStates.js';
import { countSweeps, rowsOf, type SweepClass } from '../model/countSweeps.js';
import type { BlockChoice, Policy } from '../Policy.js';
import { ratesTogether, spendingOf, type Spending } from '../spending.js';
import type { Workload } from '../Workload.js';
import type { PipelineLink } from './Machines.js';
import type { CappedMachine, ParsedPipelineRequest } from './PipelineRequest.js';
import { pipelineSeconds, type PipelineSeconds, type PipelineSweeps } from './pipelineSeconds.js';
import type { StageCost } from './stageCost.js';

/** An engine of some of the layers. */
export interface PlannedStage {
  readonly machine: string;
  readonly layers: { readonly first: number; readonly count: number };
  /** The shares of those layers on each tier. */
  readonly policy: Policy;
  readonly memoryBytes: Readonly<Record<Tier, number>>;
  /** Seconds in which it computes or moves; the rest of the time it waits for its neighbours. */
  readonly busySeconds: number;
  readonly idleShare: number;
  /** Seconds in which the link after it is taken by hidden states. */
  readonly linkSeconds: number;
}

/** How layers are divided over machines, and how fast that is. */
export interface PipelinePlan {
  readonly model: string;
  readonly workload: Workload;
  /** Rows of a batch, and how many of these there are: `--batch-size` and `--batches` of every engine. */
  readonly batchSize: number;
  readonly batches: number;
  /** Tokens of a square, `--tokens-per-square` of every engine; without: the default. */
  readonly tokensPerSquare?: number | undefined;
  /**
   * As many as batches; fewer where weights that stream serve several batches at once, and 1 where engines in turn are
   * faster.
   */
  readonly microBatches: number;
  /** In the order of the layers. */
  readonly stages: readonly PlannedStage[];
  /** New tokens of all rows, over `wallSeconds`. */
  readonly tokensPerSecond: number;
  readonly wallSeconds: number;
  /** The part of `wallSeconds` that goes to prompts, filling the pipeline with them included. */
  readonly prefillSeconds: number;
  /** Rows of the workload, or of some blocks where their number is open. */
  readonly rows: number;
  /** The same engines where all batches share each sweep: one engine computes while the others wait. */
  readonly inTurnTokensPerSecond: number;
  /** Money and energy of all machines, where all of their hardware files have a price, or watts. */
  readonly spending?: Spending | undefined;
  /**
   * The bottleneck on which the time is spent: the name of a machine, of the link after one, or `latency` where more
   * micro-batches would help.
   */
  readonly bottleneck: string;
}

/** The micro-batches that a block's batches are dealt out to. */
export interface MicroBatches {
  readonly count: number;
  /** The rows of one, the sweeps that it makes by itself. */
  readonly alone: Workload;
  readonly classes: readonly SweepClass[];
  /** The rows of all micro-batches together. */
  readonly rows: number;
}

/** Rows and batches are dealt out evenly. */
export function microBatchesOf(workload: Workload, block: BlockChoice, count: number): MicroBatches {
  const { rows } = workload;
  const alone = rows === undefined ? workload : { ...workload, rows: Math.max(1, Math.ceil(rows / count)) };
  const single = { ...block, batches: block.batches / count };
  return { count, alone, classes: countSweeps(alone, single), rows: rows ?? count * rowsOf(alone, single) };
}

/** Seconds that a stage computes or moves for one micro-batch of several. */
export function stageSeconds({ classes }: MicroBatches, { nextSeconds }: StageCost): number {
  return nextSeconds.reduce((sum, each, index) => sum + each * (classes[index]?.sweeps ?? 0), 0);
}

/**
 * How fast a pipeline of such stages is. Pure.
 * @param counts layers of each stage, in the order of the machines
 */
export function pipelineOfStages(
  {
    machines,
    shape,
    workload,
    hiddenStates,
  }: Pick<ParsedPipelineRequest, 'machines' | 'shape' | 'workload' | 'hiddenStates'>,
  { count, classes, rows }: MicroBatches,
  counts: readonly number[],
  costs: readonly StageCost[],
): { readonly atOnce: PipelinePlan; readonly inTurn: PipelinePlan } {
  const links = machines.map(({ link }) => link);
  const sweeps = classes.map(({ sweeps: times, squares, load, next }, index) => ({
    sweeps: times,
    next,
    hiddenBytes: squares * (load.promptTokens + load.decodeRows) * shape.hiddenSize * HIDDEN_STATE_BYTES[hiddenStates],
    stages: costs.map(({ sweepSeconds }) => sweepSeconds[index] ?? 0),
    apart: costs.map(({ nextSeconds }) => nextSeconds[index] ?? 0),
    promptShare: load.promptTokens / (load.promptTokens + load.decodeRows),
  }));
  const atOnce = pipelineSeconds(sweeps, links, count);
  const inTurn = secondsInTurn(atOnce, sweeps, links, costs);
  const newTokens = rows * workload.newTokens;
  const square = costs[0]?.policy.tokensPerSquare;
  const rates = ratesTogether(machines.map(({ hardware }) => hardware));
  const planOf = (seconds: PipelineSeconds, microBatches: number): PipelinePlan => ({
    model: shape.name,
    workload,
    batchSize: costs[0]?.policy.batchSize ?? 1,
    batches: costs[0]?.policy.batches ?? 1,
    ...(square !== undefined && { tokensPerSquare: square }),
    microBatches,
    stages: costs.map(({ policy, memoryBytes }, stage) => ({
      machine: machines[stage]?.name ?? '',
      layers: {
        first: counts.slice(0, stage).reduce((sum, each) => sum + each, 0),
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
    prefillSeconds: seconds.prefill,
    rows,
    inTurnTokensPerSecond: newTokens / inTurn.wall,
    spending: spendingOf(rates, seconds.wall, newTokens),
    bottleneck: bottleneckOf(seconds, machines),
  });
  return { atOnce: planOf(atOnce, count), inTurn: planOf(inTurn, 1) };
}

/** All batches share each sweep, and the next engine has nothing to compute before hidden states have come. */
function secondsInTurn(
  atOnce: PipelineSeconds,
  classes: readonly PipelineSweeps[],
  links: readonly PipelineLink[],
  costs: readonly StageCost[],
): PipelineSeconds {
  const total = (each: readonly number[]): number => each.reduce((sum, value) => sum + value, 0);
  const sweeps = total(classes.map((each) => each.sweeps));
  const waiting = total(links.map(({ latencySeconds }) => sweeps * latencySeconds));
  const busy = costs.map(({ blockSeconds }) => blockSeconds);
  const between = total(atOnce.links) + waiting;
  const bytes = classes.map((each) => each.sweeps * each.hiddenBytes);
  const ofPrompts = total(classes.map(({ promptShare }, index) => promptShare * (bytes[index] ?? 0))) / total(bytes);
  return {
    wall: total(busy) + between,
    prefill: total(costs.map(({ blockPrefillSeconds }) => blockPrefillSeconds)) + ofPrompts * between,
    busy,
    links: atOnce.links,
    waiting,
  };
}

/** Who is busiest; where everybody waits for micro-batches to come round most of the time, that. */
function bottleneckOf({ wall, busy, links, waiting }: PipelineSeconds, machines: readonly CappedMachine[]): string {
  if (waiting > wall / 2) return 'latency';
  const most = Math.max(...busy, ...links);
  const machine = machines[busy.indexOf(most)];
  return machine?.name ?? `the link after ${machines[links.indexOf(most)]?.name ?? ''}`;
}
