import { drained, type Work } from '../../collections/drained.js';
import { ringSumColumns, ringSumSteps } from '../../engine/grid/ringSum.js';
import { exchangeLengths, ringExchangeNumbers, ringExchangeSteps, routesOf } from '../../engine/grid/rowExchange.js';
import { BLOCK_SCHEDULES } from '../../engine/schedules/blockSchedules.js';
import { UsageError } from '../../errors/UsageError.js';
import { COST_MODELS } from '../costModels.js';
import {
  ATTENTION_BY,
  columnsOfShare,
  headsOfShare,
  rowAttention,
  type AttentionBy,
  type LayerShare,
} from '../../model/dividedLayer.js';
import { WEIGHT_TYPES } from '../../model/weightTypes.js';
import { sizesOf } from '../model/sizes.js';
import { mixersOf, type ModelShape } from '../ModelShape.js';
import { mostBatchSizeOf } from '../PlanRequest.js';
import { ratesTogether, spendingOf, type Spending } from '../spending.js';
import type { Workload } from '../Workload.js';
import { closedNetworkSeconds } from './closedNetworkSeconds.js';
import { lostShare, threadSeconds } from './lostShare.js';
import { messageSeconds } from './messageSeconds.js';
import { microBatchesOf } from './pipelineOfStages.js';
import {
  parsePipelineRequest,
  settledBlock,
  type ParsedPipelineRequest,
  type PipelineRequest,
} from './PipelineRequest.js';
import { bestStage, type StageCost } from './stageCost.js';

/** How fast machines are that have a share of each layer each. */
export interface TensorParallelPlan {
  readonly model: string;
  readonly workload: Workload;
  /** Engines, one a machine: `tensorParallel.of`. */
  readonly shares: number;
  /** How attention is divided: `tensorParallel.attention`. */
  readonly attention: AttentionBy;
  /** Keys and values of a full block of rows at their longest, in the engine that keeps the most. */
  readonly cacheBytes: number;
  /** `--batch-size` and `--batches` of every engine. */
  readonly batchSize: number;
  readonly batches: number;
  /** Tokens of a square, `--tokens-per-square` of every engine; without: the default. */
  readonly tokensPerSquare?: number | undefined;
  /** New tokens of all rows, over `wallSeconds`. */
  readonly tokensPerSecond: number;
  readonly wallSeconds: number;
  readonly rows: number;
  /** The part of `wallSeconds` in which nobody computes because sums are on their way. */
  readonly waitingSeconds: number;
  /** That the first engine sends, of all rows. */
  readonly sentBytes: number;
  /** Seconds that a processor of each engine works on messages, of all rows. */
  readonly messageSeconds: number;
  /** Money and energy of all machines, where all of their hardware files have a price, or watts. */
  readonly spending?: Spending | undefined;
}

/** Rows of a batch that are tried, and batches: with two, one is computed while the other's sums go round. */
const BATCH_SIZES = [1, 4, 8, 16, 32, 64, 128, 256];
const BATCHES = [1, 2];
/** The smaller of several plans that are about as fast answers sooner. */
const CLEARLY = 1.01;
/** Sums travel in float32. */
const NUMBER_BYTES = 4;
/** So often what an exchange takes out of a share is copied, and what it puts back, beside its messages. */
const COPIES = { out: 2, back: 2 } as const;

/**
 * Divides each layer of a model over machines, as evenly as its heads and columns allow (`headsOfShare`; 1D
 * weight-stationary in Pope et al. 2022), and finds the fastest of the batches that are tried. A sweep over a batch
 * takes each layer as long as the slowest machine takes for its share; each sum as long as its bytes take over the
 * slowest link, its steps' latency, and the work of its messages, with what exchanges copy besides. Sums of one batch
 * are hidden under the computing of another one, as far as there is one and the two do not want the same at once
 * (`closedNetworkSeconds`); but where all of a machine's processors compute, one of them does not while it works on
 * messages. Attention is divided by heads, or by rows where that is
 * clearly faster: each machine has the cache of its part of the rows then, for two further exchanges a layer. Pure.
 *
 * @throws UsageError for a request that makes no sense; for heads and columns that do not divide; for machines that do
 *   not hold their share, or have a GPU
 */
export function planTensorParallel(given: PipelineRequest): TensorParallelPlan {
  return drained(planTensorParallelInParts(given));
}

/** The same in slices, between which others may have their turn. */
export function* planTensorParallelInParts(given: PipelineRequest): Work<TensorParallelPlan> {
  const request = parsePipelineRequest(given);
  const { machines, shape, workload, allow = {} } = request;
  const { rows = Infinity } = workload;
  const of = machines.length;
  const { attention: wanted } = request;
  if (wanted === 'rows' && !attendsPlainly(shape))
    throw new UsageError(`attention: found rows for ${shape.name}, expected heads: some of its layers do not attend`);
  const ways = wanted ? [wanted] : attendsPlainly(shape) ? ATTENTION_BY : (['heads'] as const);
  const shares = machines.map((_, index) => shapeOfShare(shape, { index, of }));
  if (machines.some(({ hardware }) => hardware.memory.gpuBytes > 0))
    throw new UsageError('machines: found one with a GPU, expected processors alone for shares of each layer');
  let best: TensorParallelPlan | undefined;
  const { mostBatches = Infinity } = allow;
  for (const batchSize of allow.batchSize === undefined
    ? BATCH_SIZES.filter((size) => size <= mostBatchSizeOf(allow, Infinity))
    : [allow.batchSize]) {
    for (const batches of allow.batches === undefined
      ? BATCHES.filter((count) => count <= mostBatches)
      : [allow.batches]) {
      if (best && batches * batchSize > rows) break;
      for (const attention of ways) {
        const plan = planOf(request, shares, { attention, batchSize, batches });
        yield;
        if (plan && (!best || plan.tokensPerSecond > best.tokensPerSecond * CLEARLY)) best = plan;
      }
    }
  }
  if (best) return best;
  throw new UsageError(
    `machines: found ${machines.length} that do not hold a share of each layer of ${shape.name} each, expected larger ones, or more of them`,
  );
}

/** Tells whether all layers attend, with the same heads: only those are attended to by rows. */
function attendsPlainly({ latent, mixers = [] }: ModelShape): boolean {
  return latent === undefined && mixers.every(({ window, stateFloats }) => window !== undefined && !stateFloats);
}

/** Gives one of the shares of each layer. @throws UsageError where layers do not divide into so many */
function shapeOfShare(shape: ModelShape, share: LayerShare): ModelShape {
  const { layerWeightBytes, largestLayerWeightBytes: largest, mixers, weightType, feedForwardSize } = shape;
  if (shape.latent !== undefined || mixers?.some(({ window }) => window === undefined) === true)
    throw new UsageError(
      `machines: found ${shape.name}, expected a model whose layers remember no state and keep no latent rows where each engine has a share of every layer: divide its layers over engines (layers)`,
    );
  const block = WEIGHT_TYPES[weightType].elements;
  const { queryHeads, keyHeads } = headsOfShare(shape, block, share);
  const { count: columns } = columnsOfShare(feedForwardSize, block, share);
  const ours = { ...shape, heads: queryHeads.count, kvHeads: keyHeads.count, feedForwardSize: columns };
  const part = layerElements(ours) / layerElements(shape);
  const heads = (queryHeads.count + 2 * keyHeads.count) / (shape.heads + 2 * shape.kvHeads);
  return {
    ...ours,
    ...(mixers && {
      mixers: mixers.map((mixer) => ({
        ...mixer,
        projected: Math.ceil(mixer.projected * heads),
        mixed: Math.ceil((mixer.mixed * queryHeads.count) / shape.heads),
      })),
    }),
    keepsAll: true,
    layerWeightBytes: layerWeightBytes * part,
    ...(largest !== undefined && { largestLayerWeightBytes: largest * part }),
  };
}

/**
 * The same where it attends to so large a part of the rows, with all heads: it projects and finishes as before. The
 * planner's formulas count all rows; so each has this part of the heads.
 */
function attendingTo(part: number, share: ModelShape, { heads, kvHeads }: ModelShape): ModelShape {
  return { ...share, heads: heads * part, kvHeads: kvHeads * part, mixers: [...mixersOf(share)] };
}

/** Elements of a layer's matrices, but for the router, which all shares have. */
function layerElements({ heads, kvHeads, headDim, hiddenSize, ...shape }: ModelShape): number {
  const { feedForwardSize, feedForwardMatrices, experts } = shape;
  return hiddenSize * (2 * (heads + kvHeads) * headDim + feedForwardMatrices * feedForwardSize * (experts?.count ?? 1));
}

/** Undefined where a machine does not hold it. */
function planOf(
  { machines, shape: whole, workload, allow = {} }: ParsedPipelineRequest,
  shares: readonly ModelShape[],
  { attention, batchSize, batches }: Pick<TensorParallelPlan, 'attention' | 'batchSize' | 'batches'>,
): TensorParallelPlan | undefined {
  const schedule = allow.schedules?.[0] ?? 'diagonal';
  const of = machines.length;
  const block = {
    schedule: BLOCK_SCHEDULES[schedule].sweep === 'one-slot' ? ('diagonal' as const) : schedule,
    batchSize,
    batches,
    ...settledBlock(allow),
  };
  const { layers } = whole;
  const byRows = attention === 'rows';
  // Rows are whole, and a square's are dealt out evenly: the engine that attends to the most is waited for.
  const squareRows = Math.min(batchSize, Math.ceil((workload.rows ?? Infinity) / batches));
  const attended = byRows ? Math.ceil(squareRows / of) / squareRows : 1;
  const costs = machines.flatMap(({ hardware }, index): StageCost | never[] => {
    const first = index === 0;
    const share = shares[index];
    if (!share) return [];
    const setting = {
      hardware,
      shape: byRows ? attendingTo(attended, share, whole) : share,
      layers,
      embeds: first,
      samples: first,
      sums: true,
      allHeads: byRows ? whole : undefined,
      workload,
      alone: workload,
      microBatches: 1,
    };
    return bestStage(COST_MODELS.spillway, setting, block, 'cpu') ?? [];
  });
  if (costs.length < of) return undefined;
  const { classes, rows } = microBatchesOf(workload, { ...block, cpuAttention: true }, 1);
  const sums = layers * (whole.residual === 'parallel' ? 1 : 2);
  const bytesPerSecond = Math.min(...machines.map(({ link }) => link.bytesPerSecond));
  const latency = Math.max(...machines.map(({ link }) => link.latencySeconds));
  const lost = Math.max(...machines.map(({ hardware }) => lostShare(hardware, allow.threads)));
  const slowest = Math.max(...machines.map(({ hardware }) => threadSeconds(hardware)));
  const columns = ringSumColumns(whole.hiddenSize, { index: 0, of });
  const exchanges = byRows ? 2 * layers : 0;
  const { sent: exchangedNumbers, copied } = byRows ? exchangesOf(whole, of, squareRows) : { sent: 0, copied: 0 };
  // A copy reads and writes.
  const copying = Math.min(
    ...machines.map(({ hardware: { cpu } }) => cpu.memoryCopyBytesPerSecond ?? cpu.memoryBytesPerSecond / 2),
  );
  let [wallSeconds, waitingSeconds, sentBytes, handingSeconds] = [0, 0, 0, 0];
  classes.forEach(({ sweeps, squares, load }, index) => {
    const tokens = load.promptTokens + load.decodeRows;
    // The broadcast of what the first engine has embedded comes before the sums.
    const bytes = tokens * NUMBER_BYTES * (sums * columns + whole.hiddenSize + exchangedNumbers);
    const onLink = bytes / bytesPerSecond;
    const steps = sums * ringSumSteps(of) + exchanges * ringExchangeSteps(of) + 1;
    // As much comes as goes.
    const handing = messageSeconds(2 * steps, 2 * bytes) + (tokens * NUMBER_BYTES * copied) / copying;
    const computing = Math.max(...costs.map(({ sweepSeconds }) => sweepSeconds[index] ?? 0));
    // Squares queue for the processors that compute, for the thread that works on messages, and for the link: what is
    // computed of one hides the sums of others, as far as they do not wait for each other.
    const taken = lost * handing;
    const seconds = closedNetworkSeconds(
      squares,
      [computing / squares + taken, slowest * handing - taken, onLink],
      steps * latency,
    );
    wallSeconds += sweeps * seconds;
    waitingSeconds += sweeps * (seconds - computing);
    sentBytes += sweeps * squares * bytes;
    handingSeconds += sweeps * squares * handing;
  });
  const newTokens = rows * workload.newTokens;
  return {
    model: whole.name,
    workload,
    shares: of,
    attention,
    cacheBytes: Math.max(
      ...(byRows ? [{ ...whole, keepsAll: true }] : shares).map((shape) =>
        cacheBytesOf(shape, workload, { ...block, cpuAttention: true }, byRows ? of : 1),
      ),
    ),
    batchSize,
    batches,
    ...(block.tokensPerSquare !== undefined && { tokensPerSquare: block.tokensPerSquare }),
    tokensPerSecond: newTokens / wallSeconds,
    wallSeconds,
    rows,
    waitingSeconds,
    sentBytes,
    messageSeconds: handingSeconds,
    spending: spendingOf(ratesTogether(machines.map(({ hardware }) => hardware)), wallSeconds, newTokens),
  };
}

/**
 * Numbers of a token that an engine sends in all layers where so many rows of a square are dealt out, there and back;
 * and those that it copies out of its share and back: there what it projects of all rows and what it attends to of its
 * own, back what its heads attend to.
 */
function exchangesOf(shape: ModelShape, of: number, rows: number): { readonly sent: number; readonly copied: number } {
  const attention = rowAttention(shape, WEIGHT_TYPES[shape.weightType].elements, of);
  const tokens = Array.from({ length: of }, (_, index) => Math.ceil((rows - index) / of) / rows);
  const ways = (['rows', 'heads'] as const).map((exchange) => {
    const routes = routesOf(attention, exchange);
    return { ...routes, lengths: exchangeLengths(routes)(tokens) };
  });
  const most = (numbers: (index: number, part: number) => number): number =>
    shape.layers * Math.max(...tokens.map((part, index) => numbers(index, part)));
  return {
    sent: most((index) => ways.reduce((sum, { lengths }) => sum + ringExchangeNumbers(lengths, { index, of }), 0)),
    copied: most((index, part) =>
      ways.reduce((sum, { exchange, before, after }) => {
        const [out, back] = [before[index] ?? 0, after[index] ?? 0];
        return (
          sum +
          (exchange === 'rows'
            ? COPIES.out * out + COPIES.back * part * back
            : COPIES.out * part * out + COPIES.back * back)
        );
      }, 0),
    ),
  };
}

/** Keys and values of a full block, or of all rows, in one of so many engines that keep some of them each. */
function cacheBytesOf(
  shape: ModelShape,
  workload: Workload,
  block: Parameters<typeof sizesOf>[0]['block'] & { readonly batchSize: number; readonly batches: number },
  keepers: number,
): number {
  const { rowPages, pageBytes } = sizesOf({ shape, workload, block });
  const rows = Math.min(workload.rows ?? Infinity, block.batchSize * block.batches);
  return Math.ceil(rows / keepers) * rowPages * pageBytes;
}
