import { UsageError } from '../../errors/UsageError.js';
import { tooSlow } from '../blockSeconds.js';
import type { ModelShape } from '../ModelShape.js';
import { paretoFrontier } from '../paretoFrontier.js';
import type { ChipProfile, Interconnect } from './ChipProfile.js';
import { chipCounts, meshesOf, type Mesh } from './Mesh.js';
import {
  ATTENTION_SHARDINGS,
  LAYOUT_NAMES,
  type LayoutName,
  type Partitioning,
  type WeightFormat,
} from './Partitioning.js';
import { parsePartitionRequest, type PartitionRequest } from './PartitionRequest.js';
import {
  parameters,
  predictPhase,
  weightBytes,
  type Phase,
  type PhaseName,
  type PhasePrediction,
} from './predictPhase.js';

/** How one phase of a batch is computed, and what it takes. */
export interface PhasePlan extends Partitioning {
  readonly chips: number;
  readonly batchSize: number;
  readonly predicted: PhasePrediction;
}

/** Prompts and new tokens of a batch on the same chips, which keep their weights where they are. */
export interface PartitionPlan {
  readonly chips: number;
  readonly batchSize: number;
  readonly mesh: Mesh;
  readonly weights: WeightFormat;
  readonly prefill: PhasePlan;
  readonly decode: PhasePlan;
  /** From the batch's first prompt to its last token. */
  readonly seconds: number;
  readonly newTokensPerSecond: number;
  /** For each token of prompts and answers. */
  readonly chipSecondsPerToken: number;
  readonly mfu: number;
  /** Bytes of a chip, at most. */
  readonly memoryBytes: number;
}

/** The document of `plan --chips --json`. */
export interface PartitionDocument {
  readonly model: string;
  readonly hardware: string;
  readonly interconnect: string;
  readonly workload: PartitionRequest['workload'];
  readonly parameters: number;
  /** The cheapest one, within the latency that was asked for. */
  readonly plan: PartitionPlan;
  /**
   * By rising latency, each cheaper than all before it: prompts alone and new tokens alone (on chips of their own, for
   * batches of their own), and both on the same chips.
   */
  readonly frontiers: {
    readonly prefill: readonly PhasePlan[];
    readonly decode: readonly PhasePlan[];
    readonly both: readonly PartitionPlan[];
  };
  /** How many partitionings were looked at, of which phase and batch. */
  readonly searched: number;
}

/** Where their number is open, no more chips are tried. */
const MOST_OPEN = 256;
/** So many numbers of chips are named in a message. */
const MOST_NAMED = 12;
/** Numbers of rows that are tried where they are open. */
const BATCHES = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];

/**
 * Which layout, on how many chips, for how many rows (Pope et al., "Efficiently Scaling Transformer Inference"): looks
 * at all there are, and keeps those that no other one beats in latency and cost. Pure; at most some seconds.
 *
 * @throws UsageError for a request that makes no sense, for chips that the model does not fit on, and for a latency
 *   that nothing keeps: it names the least that was found
 */
export function planPartitioning(given: PartitionRequest): PartitionDocument {
  const request = parsePartitionRequest(given);
  const { chip, shape, workload, interconnect, chips = 'auto', maxLatencySeconds = Infinity } = request;
  const links = chip.interconnects[interconnect] as Interconnect;
  const counts = chipCounts(links);
  const open = openCounts(counts);
  if (chips !== 'auto' && meshesOf(links, chips).length === 0)
    throw new UsageError(
      `chips: found ${chips}, expected a number that ${chip.name} comes in over ${interconnect}: ${open.slice(0, MOST_NAMED).join(', ')} and the like, at most ${links.mostChips}`,
    );
  const found: { prefill: PhasePlan[]; decode: PhasePlan[]; both: PartitionPlan[] } = {
    prefill: [],
    decode: [],
    both: [],
  };
  let searched = 0;
  for (const count of chips === 'auto' ? open : [chips])
    for (const weights of request.weights ?? (['bfloat16'] as const))
      for (const batchSize of request.batchSize === undefined ? BATCHES : [request.batchSize]) {
        const best = bestOf(request, links, count, weights, batchSize);
        searched += best.searched;
        if (best.prefill) found.prefill.push(best.prefill);
        if (best.decode) found.decode.push(best.decode);
        if (best.both) found.both.push(best.both);
      }
  if (found.both.length === 0) throw tooFewChips(request, links, counts);
  const within = found.both.filter(({ seconds }) => seconds <= maxLatencySeconds);
  const [plan] = within.sort((a, b) => a.chipSecondsPerToken - b.chipSecondsPerToken || a.seconds - b.seconds);
  if (plan === undefined)
    throw tooSlow(maxLatencySeconds, Math.min(...found.both.map(({ seconds }) => seconds)), 'partitioning');
  const ofPhase = (plans: readonly PhasePlan[]): PhasePlan[] =>
    paretoFrontier(
      plans,
      ({ predicted }) => predicted.seconds,
      ({ predicted }) => predicted.chipSecondsPerToken,
    );
  return {
    model: shape.name,
    hardware: chip.name,
    interconnect,
    workload,
    parameters: parameters(shape),
    plan,
    frontiers: {
      prefill: ofPhase(found.prefill),
      decode: ofPhase(found.decode),
      both: paretoFrontier(
        found.both,
        ({ seconds }) => seconds,
        ({ chipSecondsPerToken }) => chipSecondsPerToken,
      ),
    },
    searched,
  };
}

/**
 * Finds the best for so many chips, rows and bytes of weights: chips and rows being equal, the fastest is the cheapest.
 */
function bestOf(
  { chip, shape, workload, layouts = LAYOUT_NAMES, attention = ATTENTION_SHARDINGS }: PartitionRequest,
  links: Interconnect,
  chips: number,
  weights: WeightFormat,
  batchSize: number,
): {
  prefill?: PhasePlan | undefined;
  decode?: PhasePlan | undefined;
  both?: PartitionPlan | undefined;
  searched: number;
} {
  let [prefill, decode, both]: [PhasePlan?, PhasePlan?, PartitionPlan?] = [];
  let searched = 0;
  for (const mesh of meshesOf(links, chips)) {
    for (const kept of [layouts.filter(splitsColumnsAlone), layouts.filter((layout) => !splitsColumnsAlone(layout))]) {
      const fastest = (name: PhaseName): PhasePlan | undefined => {
        let best: PhasePlan | undefined;
        for (const layout of kept)
          for (const split of attention) {
            searched++;
            const plan = fitting(
              chip,
              links,
              shape,
              { mesh, layout, attention: split, weights },
              { name, batchSize, ...workload },
            );
            if (plan && plan.predicted.seconds < (best?.predicted.seconds ?? Infinity)) best = plan;
          }
        return best;
      };
      const [first, then] = [fastest('prefill'), fastest('decode')];
      if (first && first.predicted.seconds < (prefill?.predicted.seconds ?? Infinity)) prefill = first;
      if (then && then.predicted.seconds < (decode?.predicted.seconds ?? Infinity)) decode = then;
      if (!first || !then) continue;
      const whole = together(first, then, shape, chip, workload);
      if (whole.seconds < (both?.seconds ?? Infinity)) both = whole;
    }
  }
  return { prefill, decode, both, searched };
}

/** Chips keep other parts of the weights than for all other layouts. */
function splitsColumnsAlone(layout: LayoutName): boolean {
  return layout === 'ws-1d';
}

function fitting(
  chip: ChipProfile,
  links: Interconnect,
  shape: ModelShape,
  partitioning: Partitioning,
  phase: Phase,
): PhasePlan | undefined {
  const usable = chip.memoryBytes * chip.usableFraction;
  if (weightBytes(shape, partitioning) > usable) return undefined;
  const predicted = predictPhase(chip, links, shape, partitioning, phase);
  const { mesh } = partitioning;
  return memoryOf(predicted) > usable
    ? undefined
    : { chips: mesh.x * mesh.y * mesh.z, batchSize: phase.batchSize, ...partitioning, predicted };
}

function memoryOf({ memory }: PhasePrediction): number {
  return memory.weightBytes + memory.cacheBytes;
}

function together(
  prefill: PhasePlan,
  decode: PhasePlan,
  shape: ModelShape,
  { flopsPerSecond }: ChipProfile,
  { promptTokens, newTokens }: PartitionRequest['workload'],
): PartitionPlan {
  const { chips, batchSize, mesh, weights } = prefill;
  const seconds = prefill.predicted.seconds + decode.predicted.seconds;
  const tokens = batchSize * (promptTokens + newTokens);
  return {
    chips,
    batchSize,
    mesh,
    weights,
    prefill,
    decode,
    seconds,
    newTokensPerSecond: (batchSize * newTokens) / seconds,
    chipSecondsPerToken: (chips * seconds) / tokens,
    mfu: (2 * parameters(shape) * tokens) / (seconds * chips * flopsPerSecond),
    memoryBytes: Math.max(memoryOf(prefill.predicted), memoryOf(decode.predicted)),
  };
}

/** Gives the counts that are tried where the number is open; one chip is among them. */
function openCounts(counts: readonly number[]): number[] {
  return counts.filter((count) => count <= MOST_OPEN);
}

/** For chips that are too few: how many of those worth a try would do. */
function tooFewChips(request: PartitionRequest, links: Interconnect, counts: readonly number[]): UsageError {
  const { chip, shape, chips = 'auto', weights = ['bfloat16'], batchSize = 1 } = request;
  const enough = counts.find((count) =>
    weights.some((format) => bestOf(request, links, count, format, batchSize).both !== undefined),
  );
  const tried = chips === 'auto' ? `up to ${openCounts(counts).at(-1)} of ${chip.name}` : `so many of ${chip.name}`;
  return new UsageError(
    `chips: found ${chips}, but ${shape.name} with ${batchSize === 1 ? 'one row' : `${batchSize} rows`} does not fit on ${tried}, expected ${enough === undefined ? `other chips: up to ${counts.at(-1)} of these were tried, and do not hold it` : `at least ${enough}`}`,
  );
}
