import { valueAt, type Affine } from '../Affine.js';
import { costAt, overflows, type CostModel } from '../CostModel.js';
import type { HardwareProfile } from '../HardwareProfile.js';
import type { ModelShape } from '../ModelShape.js';
import { vectorOf } from '../Placement.js';
import { usableBytes } from '../PlanRequest.js';
import { tokensPerSquareOf, type BlockChoice, type Policy } from '../Policy.js';
import { allHeadsBytes, ringTokenBytes, type AllHeads } from '../reserves.js';
import { drained } from '../../collections/drained.js';
import { searchPolicy } from '../search/searchPolicy.js';
import type { Workload } from '../Workload.js';
import type { ComputeTier, Tier } from '../../engine/grid/Tier.js';

/** Some of a model's layers on one machine, for a block of several micro-batches. */
export interface StageSetting {
  readonly hardware: HardwareProfile;
  /** The shape of the whole model. */
  readonly shape: ModelShape;
  readonly layers: number;
  /** The model's first layer is among them, or the last. */
  readonly embeds: boolean;
  readonly samples: boolean;
  /** It has a share of each layer: sums go round, and no hidden states come or go. */
  readonly sums?: boolean;
  /** The whole model's heads, where each of those that share layers attends to some rows with all of them. */
  readonly allHeads?: AllHeads | undefined;
  /** All rows, and those of one micro-batch. */
  readonly workload: Workload;
  readonly alone: Workload;
  /** That the block's batches are dealt out to. */
  readonly microBatches: number;
}

/** The costs of a stage. */
export interface StageCost {
  /** The shares of its weights, cache and hidden states on each tier. */
  readonly policy: Policy;
  readonly memoryBytes: Readonly<Record<Tier, number>>;
  /** Seconds of a sweep of one micro-batch over the stage's layers, for each class of `countSweeps`. */
  readonly sweepSeconds: readonly number[];
  /** The same where another one is directly before it, from that one's end to its own. */
  readonly nextSeconds: readonly number[];
  /** Seconds of all rows where all batches share each sweep, and of these, what goes to prompts. */
  readonly blockSeconds: number;
  readonly blockPrefillSeconds: number;
}

/** Embeddings and head are counted where they are used; tied ones on both. */
export function shapeOfStage({
  shape,
  layers,
  embeds,
  samples,
}: Pick<StageSetting, 'shape' | 'layers' | 'embeds' | 'samples'>): ModelShape {
  return {
    ...shape,
    layers,
    // Of each kind its share.
    ...(shape.mixers && {
      mixers: shape.mixers.map((mixer) => ({ ...mixer, layers: (mixer.layers * layers) / shape.layers })),
    }),
    ...(layers < shape.layers && { keepsAll: true }),
    globalWeightBytes: globalWeightBytesOf(shape, embeds, samples),
    // Whoever does not sample has no head to compute.
    ...(!samples && { vocabularySize: 1 }),
  };
}

function globalWeightBytesOf(
  { globalWeightBytes, headWeightBytes }: ModelShape,
  embeds: boolean,
  samples: boolean,
): number {
  if (!embeds && !samples) return 0;
  if (headWeightBytes === undefined || (embeds && samples)) return globalWeightBytes;
  return embeds ? globalWeightBytes - headWeightBytes : headWeightBytes;
}

/** Which of the layers a stage has is not settled, and files mix types by layer: room is for the largest. */
function roomFor(shape: ModelShape): ModelShape {
  const { layerWeightBytes, largestLayerWeightBytes: largest = layerWeightBytes } = shape;
  return largest > layerWeightBytes ? { ...shape, layerWeightBytes: largest } : shape;
}

/**
 * On its way from and to the neighbours: at most a square of each batch, each way. Or what goes round those that share
 * layers; and where each attends to some rows, these rows' queries, keys and values of all heads.
 */
function transitBytes(
  {
    shape: { hiddenSize },
    embeds,
    samples,
    sums,
    allHeads,
  }: Pick<StageSetting, 'shape' | 'embeds' | 'samples' | 'sums' | 'allHeads'>,
  block: Omit<BlockChoice, 'cpuAttention'>,
): number {
  const tokens = block.batches * Math.max(tokensPerSquareOf(block), block.batchSize);
  if (sums) return tokens * (ringTokenBytes(hiddenSize, allHeads) + (allHeads ? allHeadsBytes(allHeads) : 0));
  return (Number(!embeds) + Number(!samples)) * tokens * hiddenSize * 4;
}

/**
 * Says what a stage takes that has room for all micro-batches at once, each of which sweeps by itself. Pure.
 * @param policy of the engine; its batches are those of all micro-batches
 */
export function stageCost(model: CostModel, setting: StageSetting, policy: Policy): StageCost {
  const { hardware, workload, alone, microBatches } = setting;
  const shape = shapeOfStage(setting);
  const placement = vectorOf(policy);
  const whole = costAt(model.blockAt({ hardware, shape, workload, block: policy }, placement), placement);
  const single = { ...policy, batches: policy.batches / microBatches };
  const { phases } = model.blockAt({ hardware, shape, workload: alone, block: single }, placement);
  const roomy = roomFor(shape);
  const { cpu, ...others } =
    roomy === shape
      ? whole.memoryBytes
      : costAt(model.blockAt({ hardware, shape: roomy, workload, block: policy }, placement), placement).memoryBytes;
  const longest = (bounds: readonly Affine[]): number => Math.max(...bounds.map((bound) => valueAt(bound, placement)));
  const sweepSeconds = phases.map(({ bounds }) => shape.layers * longest(bounds));
  return {
    policy,
    memoryBytes: { ...others, cpu: cpu + transitBytes(setting, policy) },
    blockSeconds: whole.seconds,
    blockPrefillSeconds: whole.prefillSeconds,
    sweepSeconds,
    // The processor attends in the order in which squares come, all layers of one micro-batch before the next one's. So
    // what a GPU computes beside it for the next one is a layer's work.
    nextSeconds: phases.map(
      ({ bounds, ownWay }, index) =>
        (sweepSeconds[index] ?? 0) - longest(bounds) + longest(bounds.filter((bound) => bound !== ownWay)),
    ),
  };
}

/**
 * The best placement of a stage. Pure.
 * @param cacheOn where the cache is: in one place in all engines, each of which counts a row's pages on every tier
 * @returns undefined where the machine does not hold it
 */
export function bestStage(
  model: CostModel,
  setting: StageSetting,
  block: Omit<BlockChoice, 'cpuAttention'>,
  cacheOn: ComputeTier,
): StageCost | undefined {
  const { hardware, workload } = setting;
  const usable = usableBytes(hardware);
  const placed = { ...usable, cpu: usable.cpu - transitBytes(setting, block) };
  if (placed.cpu <= 0) return undefined;
  const { ranked } = drained(
    searchPolicy(
      {
        ...model,
        blocks: (each) =>
          model.blocks(each).map((cost) => ({
            ...cost,
            fixed: { ...cost.fixed, cg: Number(cacheOn === 'gpu'), cc: Number(cacheOn === 'cpu'), cn: 0 },
          })),
      },
      { hardware, shape: roomFor(shapeOfStage(setting)), workload },
      {
        schedules: [block.schedule],
        batchSizes: [block.batchSize],
        batchCounts: [block.batches],
        mostBatchSize: block.batchSize,
        mostBatches: block.batches,
        compressWeights: [block.compressWeights],
        compressCache: [block.compressCache],
        cpuAttention: hardware.memory.gpuBytes > 0 ? [true, false] : [true],
        tokensPerSquare: block.tokensPerSquare,
        threads: block.threads,
        sparseAttention: block.sparseAttention,
      },
      placed,
    ),
  );
  for (const { policy } of ranked) {
    const cost = stageCost(model, setting, policy);
    // A block that memory lets in row by row has another pace than its neighbours'.
    if (overflows(cost, usable).length === 0) return cost;
  }
  return undefined;
}
