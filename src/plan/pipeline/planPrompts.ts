import { drained, type Work } from '../../collections/drained.js';
import { UsageError } from '../../errors/UsageError.js';
import { COST_MODELS } from '../costModels.js';
import { countSweeps } from '../model/countSweeps.js';
import { sizesOf } from '../model/sizes.js';
import { MOST_PAGES_BYTES, MOVING_BYTES, MOVING_TOKENS, PAGE_TOKENS } from '../reserves.js';
import type { MixerShape } from '../ModelShape.js';
import { mostBatchSizeOf } from '../PlanRequest.js';
import { tokensPerSquareOf, type Policy } from '../Policy.js';
import { ratesTogether, spendingOf, type Spending } from '../spending.js';
import type { Workload } from '../Workload.js';
import type { CappedMachine, ParsedPipelineRequest, PipelineRequest } from './PipelineRequest.js';
import { lostShare } from './lostShare.js';
import { messageSeconds } from './messageSeconds.js';
import { parsePipelineRequest, settledBlock } from './PipelineRequest.js';
import { bestStage, stageCost, type StageCost, type StageSetting } from './stageCost.js';

/** How fast two machines are of which one computes prompts and the other new tokens. */
export interface PromptsPlan {
  readonly model: string;
  readonly workload: Workload;
  /** The machine that generates, and the one of `follow --prompts`; both have all layers. */
  readonly generates: PromptsMachine;
  readonly prompts: PromptsMachine;
  /** New tokens of all rows, over `wallSeconds`. */
  readonly tokensPerSecond: number;
  readonly wallSeconds: number;
  readonly rows: number;
  /** Pages of one prompt, as they are sent. */
  readonly bytesPerPrompt: number;
  /** The link is taken so long by the pages of all prompts. */
  readonly linkSeconds: number;
  /** The machine that generates, alone; and both, each with whole rows of its own (`--shard`). */
  readonly aloneTokensPerSecond: number;
  readonly shardsTokensPerSecond: number;
  /** Money and energy of all machines, where all of their hardware files have a price, or watts. */
  readonly spending?: Spending | undefined;
  /** On what the time is spent: the name of a machine, or of the link. */
  readonly bottleneck: string;
}

export interface PromptsMachine {
  readonly machine: string;
  readonly batchSize: number;
  readonly batches: number;
  readonly policy: Policy;
  /** Seconds that it would take for its part if it never waited. */
  readonly busySeconds: number;
}

/** Rows of a batch that are tried. */
const BATCH_SIZES = [1, 4, 8, 16, 32, 64, 128, 256];
/** The pace at which prompts come is found to so many halvings. */
const HALVINGS = 24;

/**
 * Finds how fast the first of two machines generates where the second one computes the prompts, in batches of their own
 * (Pope et al. 2022, chained prefill and decode): a row comes in when its pages have crossed the link. It takes as long
 * as the slowest of prompts, link and new tokens. Where new tokens wait for the others, rows come at the pace of these,
 * and batches are no fuller than that. Pure.
 *
 * @throws UsageError for a request that makes no sense; for other than two machines, one with a GPU, or one that does
 *   not hold the model; for a model whose layers remember a state; for prompts longer than engines send
 */
export function planPrompts(given: PipelineRequest): PromptsPlan {
  return drained(planPromptsInParts(given));
}

/** The same in slices, between which others may have their turn. */
export function* planPromptsInParts(given: PipelineRequest): Work<PromptsPlan> {
  const request = parsePipelineRequest(given);
  const { machines, shape, workload } = request;
  const [first, second, ...others] = machines;
  if (!first || !second || others.length > 0)
    throw new UsageError(`machines: found ${machines.length}, expected two where one of them computes prompts`);
  if (machines.some(({ hardware }) => hardware.memory.gpuBytes > 0))
    throw new UsageError(
      'machines: found one with a GPU, expected processors alone where one of them computes prompts',
    );
  const { promptTokens, newTokens } = workload;
  const whole = ({ window }: MixerShape): boolean =>
    window === 0 || (window !== undefined && window >= promptTokens + newTokens);
  if (shape.mixers?.every(whole) === false)
    throw new UsageError(
      `machines: found ${shape.name}, expected a model whose layers keep keys and values of all positions where one machine computes prompts`,
    );
  if (promptTokens < 2)
    throw new UsageError(
      `promptTokens: found ${promptTokens}, expected at least 2 where another machine computes them`,
    );
  const asked = { ...workload, newTokens: 1 };
  const prompts = yield* bestOf(request, second, asked);
  const left = { ...workload, givenTokens: promptTokens - 1 };
  const generates = yield* bestOf(request, first, left);
  const alone = yield* bestOf(request, first, workload);
  const beside = yield* bestOf(request, second, workload);
  const rows = workload.rows ?? rowsOf(generates);
  const perRow = ({ cost, workload: { rows: counted = rows } }: Placed): number => cost.blockSeconds / counted;
  const { bytesPerSecond, latencySeconds } = second.link;
  const sent = { promptTokens: promptTokens - 1, newTokens: 1 };
  const sizes = sizesOf({ shape: { ...shape, keepsAll: true }, workload: sent, block: prompts.cost.policy });
  const bytesPerPrompt = sizes.rowPages * sizes.pageBytes;
  const mostPages = Math.max(Math.ceil(MOVING_TOKENS / PAGE_TOKENS), Math.floor(MOVING_BYTES / sizes.pageBytes));
  if (sizes.rowPages > mostPages)
    throw new UsageError(
      `promptTokens: found ${promptTokens}, expected at most ${mostPages * PAGE_TOKENS + 1} where another machine computes them: longer ones are computed where they are generated`,
    );
  const onLink = bytesPerPrompt / bytesPerSecond;
  // The prompt, and its pages.
  const messages = 1 + Math.ceil(bytesPerPrompt / MOST_PAGES_BYTES);
  // Where all processors compute, one of them does not while it hands pages over, or takes them in.
  const handing = ({ hardware }: CappedMachine): number =>
    lostShare(hardware, request.allow?.threads) * messageSeconds(messages, bytesPerPrompt);
  const promptSeconds = perRow(prompts) + handing(second);
  const pace = Math.max(promptSeconds, onLink);
  // The first prompts come together: those of a square.
  const together = Math.max(1, Math.min(rows, Math.floor(tokensPerSquareOf(prompts.cost.policy) / promptTokens)));
  const ahead = together * promptSeconds + onLink + 2 * latencySeconds;
  const generating = atPace(generates, pace, rows, handing(first));
  const wallSeconds = ahead + generating;
  const rate = ({ cost, workload: { rows: counted = rows } }: Placed): number =>
    (counted * newTokens) / cost.blockSeconds;
  const machineOf = ({ name }: CappedMachine, { cost: { policy } }: Placed, busySeconds: number): PromptsMachine => ({
    machine: name,
    batchSize: policy.batchSize,
    batches: policy.batches,
    policy,
    busySeconds,
  });
  const busy = rows * (perRow(generates) + handing(first));
  const slowest = Math.max(rows * pace, busy);
  return {
    model: shape.name,
    workload,
    generates: machineOf(first, generates, busy),
    prompts: machineOf(second, prompts, rows * promptSeconds),
    tokensPerSecond: (rows * newTokens) / wallSeconds,
    wallSeconds,
    rows,
    bytesPerPrompt,
    linkSeconds: rows * onLink,
    aloneTokensPerSecond: rate(alone),
    shardsTokensPerSecond: rate(alone) + rate(beside),
    spending: spendingOf(ratesTogether([first.hardware, second.hardware]), wallSeconds, rows * newTokens),
    bottleneck: slowest === busy ? first.name : promptSeconds >= onLink ? second.name : `the link after ${second.name}`,
  };
}

/** A machine's best block for rows that it computes alone. */
interface Placed {
  readonly cost: StageCost;
  readonly setting: StageSetting;
  readonly workload: Workload;
}

function rowsOf({ cost: { policy } }: Placed): number {
  return policy.batchSize * policy.batches * 3;
}

/** @throws UsageError where the machine does not hold the model */
function* bestOf({ shape, allow = {} }: ParsedPipelineRequest, machine: CappedMachine, given: Workload): Work<Placed> {
  const schedule = allow.schedules?.[0] ?? 'diagonal';
  const sizes = BATCH_SIZES.filter((size) => size <= mostBatchSizeOf(allow, Infinity));
  const { batches = 1 } = allow;
  let best: Placed | undefined;
  for (const batchSize of allow.batchSize === undefined ? sizes : [allow.batchSize]) {
    const workload = { ...given, rows: given.rows ?? 3 * batchSize * batches };
    const setting = {
      hardware: machine.hardware,
      shape,
      layers: shape.layers,
      embeds: true,
      samples: true,
      workload,
      alone: workload,
      microBatches: 1,
    };
    const cost = bestStage(
      COST_MODELS.spillway,
      setting,
      { schedule, batchSize, batches, ...settledBlock(allow) },
      'cpu',
    );
    yield;
    if (!cost) continue;
    const seconds = (of: Placed): number => of.cost.blockSeconds / (of.workload.rows ?? 1);
    const placed = { cost, setting, workload };
    if (!best || seconds(placed) < seconds(best)) best = placed;
  }
  if (best) return best;
  const positions = given.promptTokens + given.newTokens;
  throw new UsageError(
    `machines: found ${machine.name}, which does not hold ${shape.name} and ${allow.batchSize ?? 1} rows of ${positions} tokens, expected a larger one, or fewer rows (allow.batchSize)`,
  );
}

/**
 * Seconds in which rows are generated that come one every so many seconds.
 * @param taking seconds of each row in which nothing is computed, because its pages are taken in
 */
function atPace({ cost, setting, workload }: Placed, pace: number, rows: number, taking: number): number {
  const { policy } = cost;
  const of = (changed: Partial<Workload>): { readonly seconds: number; readonly sweeps: number } => {
    const paced = { ...workload, rows, ...changed };
    const { blockSeconds } = stageCost(COST_MODELS.spillway, { ...setting, workload: paced, alone: paced }, policy);
    const sweeps = countSweeps(paced, policy).reduce((sum, each) => sum + each.sweeps, 0);
    return { seconds: blockSeconds + (paced.rows ?? rows) * taking, sweeps };
  };
  const unpaced = of({});
  if (unpaced.seconds >= rows * pace) return unpaced.seconds;
  // Fewer a sweep leave longer between them.
  let [least, most] = [1e-6, policy.batchSize * policy.batches];
  for (let turn = 0; turn < HALVINGS; turn++) {
    const middle = Math.sqrt(least * most);
    const { seconds, sweeps } = of({ admittedPerSweep: middle });
    if (seconds / sweeps / middle > pace) least = middle;
    else most = middle;
  }
  // The last one is still to be generated when all have come.
  return Math.max((rows - 1) * pace + of({ rows: 1 }).seconds, of({ admittedPerSweep: most }).seconds);
}
