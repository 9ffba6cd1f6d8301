import { BLOCK_SCHEDULES } from '../../engine/schedules/blockSchedules.js';
import type { BlockSetting, CostModel } from '../CostModel.js';
import { costAt } from '../costAt.js';
import { sharesOf } from '../Placement.js';
import type { Tier } from '../../engine/grid/Tier.js';
import type { BlockChoice } from '../Policy.js';
import { batchCounts, batchSizes } from './blockSizes.js';
import { pacedPolicies } from './pacedPolicies.js';
import { roundedPlacements } from './roundedPlacements.js';
import type { RankedPolicy, SearchSpace } from './SearchSpace.js';
import { leastSeconds, mayFit, solvePlacement } from './solvePlacement.js';

export interface SearchOutcome {
  /** Best first; one for each block size and kind that was among the best. Empty if nothing fits. */
  readonly ranked: readonly RankedPolicy[];
  /** How many blocks were looked at, how many of them needed a linear program, and how many of those had a solution. */
  readonly blocks: number;
  readonly programs: number;
  readonly feasible: number;
}

/** Every which point of the grid of block sizes is looked at first. */
const COARSE = 4;
/** From how many of these the search goes on to their neighbours. */
const STARTS = 3;

/**
 * The best policy of a space (FlexGen, section 4.3): a linear program gives the placement for a block. Block sizes are
 * searched from coarse to fine: a coarse grid of batch sizes and numbers of batches for each kind of block, then from
 * the best of them on to better neighbours, while bounds pass over blocks that cannot fit, or cannot beat what was
 * found. Beside them stand blocks that memory lets in row by row. Pure.
 */
export function searchPolicy(
  model: CostModel,
  base: Omit<BlockSetting, 'block'>,
  space: SearchSpace,
  usable: Readonly<Record<Tier, number>>,
): SearchOutcome {
  const found: RankedPolicy[] = [];
  const counts = { blocks: 0, programs: 0, feasible: 0 };
  let best = 0;

  /** The best placement of one block; undefined if nothing fits, or nothing that could be near the best of its kind. */
  const solve = (block: BlockChoice, atLeast: number): RankedPolicy | undefined => {
    counts.blocks++;
    const setting = { ...base, block };
    let winner: RankedPolicy | undefined;
    const costs = model
      .blocks(setting)
      .filter((cost) => mayFit(cost, usable))
      .map((cost) => ({ cost, bound: cost.newTokens / leastSeconds(cost) }));
    for (const { cost, bound } of costs) {
      if (bound <= Math.max(atLeast, winner?.at.tokensPerSecond ?? 0)) continue;
      counts.programs++;
      const solved = solvePlacement(cost, usable);
      if (solved.status !== 'optimal' || cost.newTokens / solved.seconds <= (winner?.at.tokensPerSecond ?? 0)) continue;
      for (const placement of roundedPlacements(model, setting, cost, solved, usable)) {
        const at = costAt(model.blockAt(setting, placement), placement);
        if (at.tokensPerSecond > (winner?.at.tokensPerSecond ?? 0))
          winner = { policy: { ...block, ...sharesOf(placement) }, at };
      }
    }
    if (winner !== undefined) {
      counts.feasible++;
      found.push(winner);
      best = Math.max(best, winner.at.tokensPerSecond);
    }
    return winner;
  };

  for (const kind of kinds(space)) {
    const sizes = space.batchSizes ?? batchSizes(space.mostBatchSize);
    const batches =
      BLOCK_SCHEDULES[kind.schedule].sweep === 'one-slot' ? [1] : (space.batchCounts ?? batchCounts(space.mostBatches));
    const seen = new Map<number, number>();
    const visit = (i: number, j: number, atLeast: number): number => {
      const [batchSize, count] = [sizes[i], batches[j]];
      if (batchSize === undefined || count === undefined) return 0;
      const key = i * batches.length + j;
      let value = seen.get(key);
      if (value === undefined)
        seen.set(key, (value = solve({ ...kind, batchSize, batches: count }, atLeast)?.at.tokensPerSecond ?? 0));
      return value;
    };
    const coarse: { i: number; j: number; value: number }[] = [];
    for (const i of coarseSteps(sizes.length)) {
      // Of larger numbers of batches than one that does not fit, none does either.
      for (const j of coarseSteps(batches.length)) coarse.push({ i, j, value: visit(i, j, best * KIND_NEAR) });
    }
    for (const start of coarse
      .filter(({ value }) => value > 0)
      .sort((a, b) => b.value - a.value)
      .slice(0, STARTS))
      climb(start, visit);
    found.push(...pacedPolicies(model, base, kind, space, usable));
  }
  found.sort((a, b) => b.at.tokensPerSecond - a.at.tokensPerSecond || rows(a) - rows(b));
  return { ranked: found, ...counts };
}

/** Blocks whose bound is further than this from the best found so far are not solved. */
const KIND_NEAR = 0.8;

/** Goes on to better neighbours, in steps that get smaller. */
function climb(
  start: { readonly i: number; readonly j: number; readonly value: number },
  visit: (i: number, j: number, atLeast: number) => number,
): void {
  let { i, j, value } = start;
  for (let step = COARSE / 2; step >= 1;) {
    let moved = false;
    for (const [di, dj] of [
      [1, 0],
      [-1, 0],
      [0, 1],
      [0, -1],
      [1, -1],
      [-1, 1],
    ] as const) {
      const next = visit(i + di * step, j + dj * step, value);
      if (next > value * (1 + 1e-9)) {
        [i, j, value] = [i + di * step, j + dj * step, next];
        moved = true;
        break;
      }
    }
    if (!moved) step /= 2;
  }
}

/** The first, the last, and every fourth in between. */
function coarseSteps(length: number): number[] {
  const steps: number[] = [];
  for (let i = 0; i < length; i += COARSE) steps.push(i);
  if (length > 0 && steps.at(-1) !== length - 1) steps.push(length - 1);
  return steps;
}

/** Of two plans that are equally fast, the smaller block answers sooner. */
function rows({ policy }: RankedPolicy): number {
  return policy.batchSize * policy.batches;
}

function* kinds(space: SearchSpace): Generator<Omit<BlockChoice, 'batchSize' | 'batches'>> {
  const { tokensPerSquare, threads } = space;
  const more = { ...(tokensPerSquare !== undefined && { tokensPerSquare }), ...(threads !== undefined && { threads }) };
  for (const compressWeights of space.compressWeights) {
    for (const compressCache of space.compressCache) {
      for (const cpuAttention of space.cpuAttention) {
        for (const schedule of space.schedules)
          yield { schedule, compressWeights, compressCache, cpuAttention, ...more };
      }
    }
  }
}
