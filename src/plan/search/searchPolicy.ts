import { type BlockSetting, type CostAt, type CostModel, costAt, overflows } from '../CostModel.js';
import type { Work } from '../../collections/drained.js';
import { BLOCK_SCHEDULES, type ScheduleName } from '../../engine/schedules/blockSchedules.js';
import { type BlockChoice, type Compression, type Policy, refillsAtOnce } from '../Policy.js';
import { blockSeconds, rowsAlone } from '../blockSeconds.js';
import { sharesOf, vectorOf } from '../Placement.js';
import type { Tier } from '../../engine/grid/Tier.js';
import { roundedPlacements } from './roundPlacement.js';
import { leastSeconds, mayFit, solvePlacement } from './solvePlacement.js';
import { pacedSetting } from '../model/paced.js';

/** The values that the search may choose from. A list of one value settles the question. */
export interface SearchSpace {
  readonly schedules: readonly ScheduleName[];
  /** Default: every size worth a try, to `mostBatchSize`. */
  readonly batchSizes?: readonly number[] | undefined;
  readonly batchCounts?: readonly number[] | undefined;
  readonly mostBatchSize: number;
  readonly mostBatches: number;
  readonly compressWeights: readonly Compression[];
  readonly compressCache: readonly Compression[];
  readonly cpuAttention: readonly (boolean | number)[];
  /**
   * Shares of the cache beside a GPU that are tried for the processor to attend to, while the rest comes to the GPU:
   * for the best block of each kind of `cpuAttention`. Default: none.
   */
  readonly hostShares?: readonly number[] | undefined;
  readonly tokensPerSquare?: number | undefined;
  readonly threads?: number | undefined;
  /** Numbers of threads that the best blocks are tried with besides. Default: none. */
  readonly otherThreads?: readonly number[] | undefined;
  readonly sparseAttention?: number | undefined;
  /** Blocks that take longer are none. Default: any. */
  readonly maxLatencySeconds?: number | undefined;
}

export interface RankedPolicy {
  readonly policy: Policy;
  readonly at: CostAt;
  /** A block's latency (`blockSeconds`), where there is a bound on it. */
  readonly latencySeconds?: number | undefined;
}

export interface SearchOutcome {
  /** Best first; one for each block size and kind that was among the best. Empty if nothing fits. */
  readonly ranked: readonly RankedPolicy[];
  /** How many blocks were looked at, how many of them needed a linear program, and how many of those had a solution. */
  readonly blocks: number;
  readonly programs: number;
  readonly feasible: number;
  /** The least latency of a block that fits; infinite where none does, or there is no bound. */
  readonly leastLatencySeconds: number;
}

/** Every which point of the grid of block sizes is looked at first. */
const COARSE = 4;
/** Small batch sizes that are looked at lie up to one more than this apart. */
const FINEST = 3;
/** From how many of these the search goes on to their neighbours. */
const STARTS = 3;
/**
 * The gain that sharing the cache between the GPU and the processor must bring: no GPU has been seen to do both at once
 * yet.
 */
const WORTH_SHARING = 1.1;

/**
 * The best policy of a space (FlexGen, section 4.3): a linear program gives the placement for a block. Block sizes are
 * searched from coarse to fine: a coarse grid of batch sizes and numbers of batches for each kind of block, then from
 * the best of them on to better neighbours, while bounds pass over blocks that cannot fit, or cannot beat what was
 * found. Beside them stand blocks that memory lets in row by row. Pure; made in slices of a few blocks.
 */
export function* searchPolicy(
  model: CostModel,
  base: Omit<BlockSetting, 'block'>,
  space: SearchSpace,
  usable: Readonly<Record<Tier, number>>,
): Work<SearchOutcome> {
  const { hostShares = [] } = space;
  const found: RankedPolicy[] = [];
  const counts = { blocks: 0, programs: 0, feasible: 0 };
  let best = 0;
  const bound = latencyBound(model, base, space, usable);

  /** The best placement of one block; undefined if nothing fits, or nothing that could be near the best of its kind. */
  const solve = (block: BlockChoice, atLeast: number): RankedPolicy | undefined => {
    counts.blocks++;
    const setting = { ...base, block };
    let winner: RankedPolicy | undefined;
    const costs = model
      .blocks(setting)
      .filter((cost) => mayFit(cost, usable))
      .map((cost) => ({ cost, most: cost.newTokens / leastSeconds(cost) }));
    for (const { cost, most } of costs) {
      if (most <= Math.max(atLeast, winner?.at.tokensPerSecond ?? 0)) continue;
      counts.programs++;
      const solved = solvePlacement(cost, usable);
      if (solved.status !== 'optimal' || cost.newTokens / solved.seconds <= (winner?.at.tokensPerSecond ?? 0)) continue;
      for (const placement of roundedPlacements(model, setting, cost, solved, usable)) {
        const at = costAt(model.blockAt(setting, placement), placement);
        if (at.tokensPerSecond > (winner?.at.tokensPerSecond ?? 0))
          winner = bound.kept({ policy: { ...block, ...sharesOf(placement) }, at }) ?? winner;
      }
    }
    winner ??= bound.soonest(block, atLeast);
    if (winner !== undefined) {
      counts.feasible++;
      found.push(winner);
      best = Math.max(best, winner.at.tokensPerSecond);
    }
    return winner;
  };

  /** The sizes between the best one's neighbours: memory may hold 13 rows' cache where it does not hold 16's. */
  const refine = function* (of: readonly RankedPolicy[]): Work<void> {
    const winner = fastest(of);
    if (winner === undefined || space.batchSizes !== undefined) return;
    const block = blockOf(winner.policy);
    // A bound on latency may lie anywhere between two sizes of the grid.
    const reach = space.maxLatencySeconds === undefined ? FINEST : Math.max(FINEST, Math.floor(block.batchSize / 8));
    const most = Math.min(space.mostBatchSize, block.batchSize + reach);
    for (let batchSize = Math.max(1, block.batchSize - FINEST); batchSize <= most; batchSize++)
      if (batchSize !== block.batchSize) {
        solve({ ...block, batchSize }, best);
        yield;
      }
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
      for (const j of coarseSteps(batches.length)) {
        coarse.push({ i, j, value: visit(i, j, best * KIND_NEAR) });
        yield;
      }
    }
    for (const start of coarse
      .filter(({ value }) => value > 0)
      .sort((a, b) => b.value - a.value)
      .slice(0, STARTS))
      yield* climb(start, visit);
    for (const paced of pacedPolicies(model, base, kind, space, usable)) {
      const kept = bound.kept(paced);
      if (kept) found.push(kept);
    }
    yield;
  }
  yield* refine(found);
  for (const threads of space.otherThreads ?? []) {
    for (const { policy, at } of [...found].sort(byFastest).slice(0, STARTS)) {
      solve({ ...blockOf(policy), threads }, at.tokensPerSecond);
      yield;
    }
  }
  const plain = [...found];
  const enough = best * WORTH_SHARING;
  if (hostShares.length > 0) {
    for (const cpuAttention of space.cpuAttention) {
      const winner = fastest(
        plain.filter(({ policy }) => policy.cpuAttention === cpuAttention && policy.cache.gpu < 1),
      );
      for (const share of winner ? hostShares : []) {
        if (winner) solve({ ...blockOf(winner.policy), cpuAttention: share }, best);
        yield;
      }
    }
    yield* refine(found.slice(plain.length));
  }
  const ranked = [...plain, ...found.slice(plain.length).filter(({ at }) => at.tokensPerSecond > enough)];
  ranked.sort((a, b) => byFastest(a, b) || rows(a) - rows(b));
  return { ranked, ...counts, leastLatencySeconds: bound.least() };
}

function byFastest(a: RankedPolicy, b: RankedPolicy): number {
  return b.at.tokensPerSecond - a.at.tokensPerSecond;
}

function fastest(found: readonly RankedPolicy[]): RankedPolicy | undefined {
  return found.reduce<RankedPolicy | undefined>(
    (a, b) => (a && a.at.tokensPerSecond >= b.at.tokensPerSecond ? a : b),
    undefined,
  );
}

function blockOf({ weights: _weights, cache: _cache, activations: _activations, ...block }: Policy): BlockChoice {
  return block;
}

/** A bound on a block's latency. */
interface LatencyBound {
  /** The policy with its latency where it keeps the bound. */
  readonly kept: (ranked: RankedPolicy) => RankedPolicy | undefined;
  /**
   * The block placed for its own latency, for where the placement that is best for throughput takes too long.
   * @returns undefined where that does not keep the bound either, or makes no more than `atLeast` tokens a second
   */
  readonly soonest: (block: BlockChoice, atLeast: number) => RankedPolicy | undefined;
  /** The least latency that was seen. */
  readonly least: () => number;
}

function latencyBound(
  model: CostModel,
  base: Omit<BlockSetting, 'block'>,
  { maxLatencySeconds }: SearchSpace,
  usable: Readonly<Record<Tier, number>>,
): LatencyBound {
  let least = Infinity;
  const kept = (ranked: RankedPolicy): RankedPolicy | undefined => {
    if (maxLatencySeconds === undefined) return ranked;
    const { policy } = ranked;
    const latencySeconds = blockSeconds(model, { ...base, block: policy }, vectorOf(policy), usable.cpu);
    least = Math.min(least, latencySeconds);
    return latencySeconds <= maxLatencySeconds ? { ...ranked, latencySeconds } : undefined;
  };
  return {
    kept,
    soonest: (block, atLeast) => {
      if (maxLatencySeconds === undefined) return undefined;
      const setting = { ...base, block };
      const alone = rowsAlone(setting);
      let winner: RankedPolicy | undefined;
      for (const cost of model.blocks(alone)) {
        const soonest = leastSeconds(cost);
        if (soonest > maxLatencySeconds && soonest >= least) continue;
        const solved = solvePlacement(cost, usable);
        if (solved.status !== 'optimal') continue;
        for (const placement of roundedPlacements(model, alone, cost, solved, usable)) {
          const at = costAt(model.blockAt(setting, placement), placement);
          if (overflows(at, usable).length > 0) continue;
          const policy = kept({ policy: { ...block, ...sharesOf(placement) }, at });
          if (policy && at.tokensPerSecond > Math.max(atLeast, winner?.at.tokensPerSecond ?? 0)) winner = policy;
        }
      }
      return winner;
    },
    least: () => least,
  };
}

/** Blocks whose bound is further than this from the best found so far are not solved. */
const KIND_NEAR = 0.8;

/** Goes on to better neighbours, in steps that get smaller. */
function* climb(
  start: { readonly i: number; readonly j: number; readonly value: number },
  visit: (i: number, j: number, atLeast: number) => number,
): Work<void> {
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
      yield;
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

/** The smaller block of two plans that are equally fast answers sooner. */
function rows({ policy }: RankedPolicy): number {
  return policy.batchSize * policy.batches;
}

function* kinds(space: SearchSpace): Generator<Omit<BlockChoice, 'batchSize' | 'batches'>> {
  const { tokensPerSquare, threads, sparseAttention } = space;
  const more = {
    ...(tokensPerSquare !== undefined && { tokensPerSquare }),
    ...(threads !== undefined && { threads }),
    ...(sparseAttention !== undefined && { sparseAttention }),
  };
  for (const compressWeights of space.compressWeights) {
    for (const compressCache of space.compressCache) {
      for (const cpuAttention of space.cpuAttention) {
        for (const schedule of space.schedules)
          yield { schedule, compressWeights, compressCache, cpuAttention, ...more };
      }
    }
  }
}

/** Batch sizes worth a try: every one up to 4, then about an eighth apart, multiples of 4. */
export function batchSizes(most: number): number[] {
  const sizes: number[] = [];
  for (let size = 1; size <= most;) {
    sizes.push(size);
    size = size < 4 ? size + 1 : size + Math.max(4, Math.floor(size / 32) * 4);
  }
  if (most > 4 && !sizes.includes(most)) sizes.push(most);
  return sizes;
}

/** Numbers of batches worth a try: every one up to 20 (FlexGen's bound), then about an eighth apart. */
export function batchCounts(most: number): number[] {
  const counts: number[] = [];
  for (let count = 1; count <= most; count += count < 20 ? 1 : Math.max(1, Math.floor(count / 8))) counts.push(count);
  return counts;
}

/** Rows and batches that are tried where they are open. */
const SIZES = [8, 16, 32, 64, 128, 256];
const COUNTS = [1, 2, 4];
/** Shares of the weights that are left on disk to make room for the cache. */
const ON_DISK = [0, 0.25, 0.5, 0.75, 1];
/** Places for so many times the rows that memory lets live at once: more of them would stay empty. */
const ROOMY = 1.5;
const inMemory = { gpu: 0, cpu: 1, disk: 0 };

/**
 * Diagonal blocks that memory does not hold wholly: rows come in as pages come free (`pacedSetting`). The linear
 * program knows only blocks whose rows all fit at their full length; where layers stream, every further row in a pass
 * shares the reading, and rows of all ages take less. Pure.
 */
function pacedPolicies(
  model: CostModel,
  base: Omit<BlockSetting, 'block'>,
  kind: Omit<BlockChoice, 'batchSize' | 'batches'>,
  space: Pick<SearchSpace, 'batchSizes' | 'batchCounts' | 'mostBatchSize' | 'mostBatches'>,
  usable: Readonly<Record<Tier, number>>,
): RankedPolicy[] {
  if (!refillsAtOnce(kind)) return [];
  const found: RankedPolicy[] = [];
  for (const batches of space.batchCounts ?? COUNTS.filter((count) => count <= space.mostBatches)) {
    for (const disk of usable.disk > 0 ? ON_DISK : [0]) {
      for (const batchSize of space.batchSizes ?? SIZES.filter((size) => size <= space.mostBatchSize)) {
        const policy: Policy = {
          ...kind,
          batchSize,
          batches,
          weights: { gpu: 0, cpu: 1 - disk, disk },
          cache: inMemory,
          activations: inMemory,
        };
        const placement = vectorOf(policy);
        const setting = pacedSetting(model, { ...base, block: { ...kind, batchSize, batches } }, placement, usable.cpu);
        if (setting === undefined) continue;
        const at = costAt(model.blockAt(setting, placement), placement);
        if (overflows(at, usable).length === 0 && at.tokensPerSecond > 0) found.push({ policy, at });
        const { admittedPerSweep = 0, newTokens } = setting.workload;
        if (batchSize * batches > ROOMY * admittedPerSweep * newTokens) break;
      }
    }
  }
  return found;
}
