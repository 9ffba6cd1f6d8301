import * as z from 'zod';
import { drained, type Work } from '../../collections/drained.js';
import { BLOCK_SCHEDULES } from '../../engine/schedules/blockSchedules.js';
import { blockSeconds, tooSlow } from '../blockSeconds.js';
import { costAt, overflows } from '../CostModel.js';
import { costModelOf } from '../costModels.js';
import { parsedArgument } from '../parsed.js';
import { vectorOf, type PlacementShares, type TierShares } from '../Placement.js';
import { cappedHardware, mostBatchSizeOf, parseRequest, usableBytes, type PlanRequest } from '../PlanRequest.js';
import { sharesSchema, type BlockChoice, type Policy } from '../Policy.js';
import { predictionOf } from '../predict.js';
import type { RankedPlan } from './choosePolicy.js';
import { pacedSetting } from '../model/paced.js';

/**
 * Shares that are settled; where those of the weights are open, as much of them stays in memory as there is room for.
 */
export type SettledShares = Omit<PlacementShares, 'weights'> & { readonly weights?: TierShares | undefined };

const settledSchema: z.ZodType<SettledShares> = z.strictObject({
  weights: sharesSchema.optional(),
  cache: sharesSchema,
  activations: sharesSchema,
});

const SIZES = [1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024];
const COUNTS = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64];
/** The smallest share of a layer's weights that is worth a step. */
const STEP = 0.001;
/** The smaller of two blocks that are about as fast answers sooner. */
const ABOUT = 0.99;

/**
 * The best block of rows for a machine without a GPU on which everything has its place: for placements that somebody
 * has settled, and for engines that are open already. Tries batch sizes and numbers of batches, about 1.4 apart. Pure.
 *
 * @returns undefined if no block fits
 * @throws UsageError for a request or shares that make no sense, and for a `maxLatencySeconds` that no block keeps
 */
export function chooseBlock(given: PlanRequest, settled: SettledShares): RankedPlan | undefined {
  return drained(chooseBlockInParts(given, settled));
}

/** The same in slices, between which others may have their turn. */
export function* chooseBlockInParts(given: PlanRequest, settled: SettledShares): Work<RankedPlan | undefined> {
  const request = parseRequest(given);
  const shares = parsedArgument(settledSchema, settled, 'shares');
  const { shape, workload, allow = {}, costModel = 'spillway', maxLatencySeconds } = request;
  const model = costModelOf(costModel);
  const hardware = cappedHardware(request.hardware, request.caps);
  const usable = usableBytes(hardware);
  const rows = workload.rows ?? Infinity;
  const of = (known: readonly number[], allowed: number | undefined, most: number): readonly number[] =>
    allowed === undefined
      ? [...new Set([...known.filter((each) => each <= Math.min(most, rows)), ...(most <= rows ? [most] : [])])]
      : [allowed];

  const found: RankedPlan[] = [];
  let least = Infinity;
  for (const schedule of allow.schedules ?? model.schedules) {
    for (const batches of BLOCK_SCHEDULES[schedule].sweep === 'one-slot'
      ? [1]
      : of(COUNTS, allow.batches, allow.mostBatches ?? 64)) {
      for (const batchSize of of(SIZES, allow.batchSize, mostBatchSizeOf(allow, 256))) {
        const block: BlockChoice = {
          schedule,
          batchSize,
          batches,
          compressWeights: allow.compressWeights?.[0] ?? 'none',
          compressCache: allow.compressCache?.[0] ?? 'none',
          cpuAttention: true,
          ...(allow.sparseAttention !== undefined && { sparseAttention: allow.sparseAttention }),
          ...(allow.threads !== undefined && { threads: allow.threads }),
          ...(allow.tokensPerSquare !== undefined && { tokensPerSquare: allow.tokensPerSquare }),
        };
        const setting = { hardware, shape, workload, block };
        for (const policy of placed(
          block,
          shares,
          (candidate) => costAt(model.blockAt(setting, vectorOf(candidate)), vectorOf(candidate)).memoryBytes.cpu,
          usable.cpu,
        )) {
          const vector = vectorOf(policy);
          const inTurn = pacedSetting(model, setting, vector, usable.cpu);
          const cost = model.blockAt(inTurn ?? setting, vector);
          const at = costAt(cost, vector);
          if (overflows(at, usable).length > 0) continue;
          const latencySeconds =
            maxLatencySeconds === undefined ? undefined : blockSeconds(model, setting, vector, usable.cpu);
          least = Math.min(least, latencySeconds ?? Infinity);
          if (latencySeconds === undefined || latencySeconds <= (maxLatencySeconds ?? Infinity))
            found.push({
              policy,
              predicted: {
                ...predictionOf(at, cost, hardware),
                ...(latencySeconds !== undefined && { latencySeconds }),
              },
            });
          if (inTurn === undefined) break;
        }
        yield;
      }
    }
  }
  if (maxLatencySeconds !== undefined && found.length === 0 && least < Infinity)
    throw tooSlow(maxLatencySeconds, least, 'block');
  const best = Math.max(0, ...found.map(({ predicted }) => predicted.tokensPerSecond));
  const size = ({ policy }: RankedPlan): number => policy.batchSize * policy.batches;
  return found
    .filter(({ predicted }) => predicted.tokensPerSecond >= best * ABOUT)
    .sort((a, b) => size(a) - size(b) || b.predicted.tokensPerSecond - a.predicted.tokensPerSecond)[0];
}

/** The block with its shares: those given, or weights in memory, then as much of them as leaves room for the rest. */
function placed(
  block: BlockChoice,
  shares: SettledShares,
  cpuBytes: (policy: Policy) => number,
  usable: number,
): Policy[] {
  const { weights, ...others } = shares;
  const having = (disk: number): Policy => ({ ...block, ...others, weights: { gpu: 0, cpu: 1 - disk, disk } });
  if (weights !== undefined) return [{ ...block, ...others, weights }];
  // Bytes are linear in the share, but for what streaming takes in any case.
  const [most, least] = [cpuBytes(having(STEP)), cpuBytes(having(1))];
  const disk = STEP + (1 - STEP) * Math.min(1, Math.max(0, (most - usable) / (most - least)));
  return [having(0), having(Math.min(1, Math.ceil(disk / STEP) * STEP))];
}
