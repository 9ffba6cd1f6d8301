import { valueAt } from '../Affine.js';
import { costAt, overflows, type CostModel } from '../CostModel.js';
import type { HardwareProfile } from '../HardwareProfile.js';
import type { ModelShape } from '../ModelShape.js';
import { vectorOf } from '../Placement.js';
import { usableBytes } from '../PlanRequest.js';
import type { BlockChoice, Policy } from '../Policy.js';
import { searchPolicy } from '../search/searchPolicy.js';
import type { Workload } from '../Workload.js';
import type { ComputeTier, Tier } from '../../engine/grid/Tier.js';

/** Some of a model's layers on one machine, for a block of several micro-batches. */
export interface StageSetting {
  readonly hardware: HardwareProfile;
  /** Of the whole model. */
  readonly shape: ModelShape;
  readonly layers: number;
  /** The model's first layer is among them, or the last. */
  readonly embeds: boolean;
  readonly samples: boolean;
  /** All rows. */
  readonly workload: Workload;
  /** `batches`: micro-batches. */
  readonly block: Omit<BlockChoice, 'cpuAttention'>;
  /** Where the cache is: in one place in all engines, each of which counts a row's pages on every tier. */
  readonly cacheOn: ComputeTier;
}

/** What a stage takes. */
export interface StageCost {
  /** What of its weights, cache and hidden states is on which tier. */
  readonly policy: Policy;
  readonly memoryBytes: Readonly<Record<Tier, number>>;
  /** Seconds of a sweep of one micro-batch over the stage's layers, for each class of `countSweeps`. */
  readonly sweepSeconds: readonly number[];
  /** Seconds of all rows where all batches share each sweep. */
  readonly blockSeconds: number;
}

/** Embeddings and head are counted where they are used; those of tied ones, on both. */
export function shapeOfStage({
  shape,
  layers,
  embeds,
  samples,
}: Pick<StageSetting, 'shape' | 'layers' | 'embeds' | 'samples'>): ModelShape {
  return {
    ...shape,
    layers,
    globalWeightBytes: embeds || samples ? shape.globalWeightBytes : 0,
    // Whoever does not sample has no head to compute.
    ...(!samples && { vocabularySize: 1 }),
  };
}

/**
 * The best placement of a stage that has room for all micro-batches at once, and how long each of them takes with it,
 * sweeping by itself. Pure.
 * @param alone the rows of one micro-batch
 * @returns undefined where the machine does not hold it
 */
export function stageCost(model: CostModel, setting: StageSetting, alone: Workload): StageCost | undefined {
  const { hardware, workload, block, cacheOn } = setting;
  const shape = shapeOfStage(setting);
  const usable = usableBytes(hardware);
  const { ranked } = searchPolicy(
    {
      ...model,
      blocks: (each) =>
        model.blocks(each).map((cost) => ({
          ...cost,
          fixed: { ...cost.fixed, cg: Number(cacheOn === 'gpu'), cc: Number(cacheOn === 'cpu'), cn: 0 },
        })),
    },
    { hardware, shape, workload },
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
    },
    usable,
  );
  for (const { policy } of ranked) {
    const placement = vectorOf(policy);
    const whole = costAt(model.blockAt({ hardware, shape, workload, block: policy }, placement), placement);
    // A block that memory lets in row by row has another pace than its neighbours'.
    if (overflows(whole, usable).length > 0) continue;
    const { phases } = model.blockAt({ hardware, shape, workload: alone, block: { ...policy, batches: 1 } }, placement);
    return {
      policy,
      memoryBytes: whole.memoryBytes,
      blockSeconds: whole.seconds,
      sweepSeconds: phases.map(
        ({ bounds }) => shape.layers * Math.max(...bounds.map((bound) => valueAt(bound, placement))),
      ),
    };
  }
  return undefined;
}
