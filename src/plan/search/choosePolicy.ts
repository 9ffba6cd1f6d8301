import { leastValue } from '../Affine.js';
import { drained, type Work } from '../../collections/drained.js';
import { MemoryBudgetError } from '../../errors/MemoryBudgetError.js';
import { UsageError } from '../../errors/UsageError.js';
import { tooSlow } from '../blockSeconds.js';
import type { CostModel } from '../CostModel.js';
import { costModelOf } from '../costModels.js';
import type { HardwareProfile } from '../HardwareProfile.js';
import { vectorOf } from '../Placement.js';
import type { Tier } from '../../engine/grid/Tier.js';
import { cappedHardware, mostBatchSizeOf, parseRequest, usableBytes, type PlanRequest } from '../PlanRequest.js';
import type { BlockChoice, Policy } from '../Policy.js';
import { doesNotFit, predictionOf, type Prediction } from '../predict.js';
import { type SearchOutcome, type SearchSpace, searchPolicy } from './searchPolicy.js';
import { pacedSetting } from '../model/paced.js';

export interface RankedPlan {
  readonly policy: Policy;
  readonly predicted: Prediction;
}

/** The best policy of a request, and what came close. */
export interface Choice extends RankedPlan {
  readonly runnersUp: readonly RankedPlan[];
  /** The best of those that write nothing to disk; undefined where none was found. */
  readonly readsOnly: RankedPlan | undefined;
  readonly searched: Pick<SearchOutcome, 'blocks' | 'programs' | 'feasible'>;
}

/** Plans that came close, of which a choice tells. */
const RUNNERS_UP = 4;

/** Shares of the cache beside a GPU for the processor to attend to, where nobody says otherwise. */
const HOST_SHARES = [0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875];
/** Tokens of a square that are tried where memory is so scarce that working memory counts. */
export const SMALLER_SQUARES: readonly number[] = [128, 48];

/**
 * The fastest policy that fits the caps, under a cost model. Where memory is so scarce that something goes to disk, or
 * nothing fits, squares of fewer tokens are searched as well. Pure; at most some seconds for the largest models.
 *
 * @throws UsageError for a request that makes no sense, and for a `maxLatencySeconds` that no block keeps: it names the
 *   least that was found
 * @param runnersUp most plans that are told of beside the best one, one of a kind: default 4
 * @throws MemoryBudgetError if nothing fits; it names the smallest budget that would
 */
export function choosePolicy(given: PlanRequest, runnersUp = RUNNERS_UP): Choice {
  return drained(choosePolicyInParts(given, runnersUp));
}

/** The same in slices, between which others may have their turn. */
export function* choosePolicyInParts(given: PlanRequest, runnersUp = RUNNERS_UP): Work<Choice> {
  const request = parseRequest(given);
  const withGpu = cappedHardware(request.hardware, request.caps).memory.gpuBytes > 0;
  const choices: Choice[] = [];
  let tooLittle: MemoryBudgetError | undefined;
  for (const each of bySquare(request)) {
    try {
      choices.push(yield* chooseAt(each, runnersUp));
    } catch (error) {
      if (!(error instanceof MemoryBudgetError)) throw error;
      if (!tooLittle || (error.tier === tooLittle.tier && error.neededBytes < tooLittle.neededBytes)) tooLittle = error;
    }
    const [usual] = choices;
    // What a square takes is little of a GPU's memory.
    if (usual && (withGpu || (usual.policy.weights.disk === 0 && usual.policy.cache.disk === 0))) break;
  }
  const fastest = (plans: readonly RankedPlan[]): RankedPlan[] =>
    [...plans].sort((a, b) => b.predicted.tokensPerSecond - a.predicted.tokensPerSecond);
  const plans = fastest(choices.flatMap((choice) => [choice, ...choice.runnersUp]));
  const [best] = plans;
  if (best === undefined) throw tooLittle ?? new UsageError('allow: found no block that could be searched');
  const [readsOnly] = fastest(choices.flatMap(({ readsOnly: each }) => (each ? [each] : [])));
  const sum = (field: keyof Choice['searched']): number =>
    choices.reduce((total, { searched }) => total + searched[field], 0);
  return {
    policy: best.policy,
    predicted: best.predicted,
    readsOnly,
    runnersUp: distinct(plans).slice(1, 1 + runnersUp),
    searched: { blocks: sum('blocks'), programs: sum('programs'), feasible: sum('feasible') },
  };
}

/** The request, and the same with smaller squares where those are open and the cost model knows them. */
function* bySquare(request: PlanRequest): Generator<PlanRequest> {
  yield request;
  const { allow = {}, costModel = 'spillway' } = request;
  if (costModel !== 'spillway' || allow.tokensPerSquare !== undefined) return;
  for (const tokensPerSquare of SMALLER_SQUARES) {
    // Every row has a token in a square.
    if (allow.batchSize !== undefined && allow.batchSize > tokensPerSquare) continue;
    yield { ...request, allow: { ...allow, tokensPerSquare } };
  }
}

function* chooseAt(request: PlanRequest, runnersUp: number): Work<Choice> {
  const { shape, workload, costModel = 'spillway' } = request;
  const model = costModelOf(costModel);
  const hardware = cappedHardware(request.hardware, request.caps);
  const usable = usableBytes(hardware);
  const space = searchSpace(request, model, hardware);
  const { ranked, leastLatencySeconds, ...searched } = yield* searchPolicy(
    model,
    { hardware, shape, workload },
    space,
    usable,
  );
  const plans = ranked.map(({ policy, at, latencySeconds }): RankedPlan => {
    const [setting, placement] = [{ hardware, shape, workload, block: policy }, vectorOf(policy)];
    return {
      policy,
      predicted: {
        ...predictionOf(
          at,
          model.blockAt(pacedSetting(model, setting, placement, usable.cpu) ?? setting, placement),
          hardware,
        ),
        ...(latencySeconds !== undefined && { latencySeconds }),
      },
    };
  });
  const [best] = plans;
  if (best === undefined && space.maxLatencySeconds !== undefined && leastLatencySeconds < Infinity)
    throw tooSlow(space.maxLatencySeconds, leastLatencySeconds, 'block');
  if (best === undefined) throw yield* smallestBudget(model, { ...request, hardware }, space, usable);
  const readsOnly = plans.find(({ policy: { cache, activations } }) => cache.disk === 0 && activations.disk === 0);
  return { ...best, readsOnly, runnersUp: distinct(plans).slice(1, 1 + runnersUp), searched };
}

/** Says what a request leaves open. */
function searchSpace(
  { allow = {}, workload, maxLatencySeconds }: PlanRequest,
  model: CostModel,
  hardware: HardwareProfile,
): SearchSpace {
  const withGpu = hardware.memory.gpuBytes > 0;
  const { rows = Infinity } = workload;
  const allowedAttention = model.cpuAttention ?? allow.cpuAttention;
  return {
    schedules: allow.schedules ?? model.schedules,
    batchSizes: allow.batchSize === undefined ? undefined : [allow.batchSize],
    batchCounts: allow.batches === undefined ? undefined : [allow.batches],
    mostBatchSize: Math.min(rows, mostBatchSizeOf(allow, withGpu ? 1024 : 256)),
    mostBatches: Math.min(rows, allow.mostBatches ?? 64),
    compressWeights: allow.compressWeights ?? ['none'],
    compressCache: allow.compressCache ?? ['none'],
    cpuAttention: withGpu ? (allowedAttention ?? [true, false]) : [true],
    // The papers know no shares. Rows that begin alike, of different lengths, share only what the same one attends to.
    hostShares:
      model.name === 'spillway' && withGpu && allow.cpuAttention === undefined && !workload.sharedPrefixTokens
        ? HOST_SHARES
        : [],
    tokensPerSquare: allow.tokensPerSquare,
    threads: allow.threads,
    otherThreads:
      allow.threads === undefined && hardware.cpu.oneThreadACore ? [hardware.cpu.oneThreadACore.threads] : [],
    sparseAttention: allow.sparseAttention,
    maxLatencySeconds,
  };
}

/** One plan of each kind: plans that differ in nothing but a few rows are no alternatives. */
function distinct(plans: readonly RankedPlan[]): RankedPlan[] {
  const seen = new Set<string>();
  return plans.filter(
    ({ policy: { schedule, batchSize, batches, cpuAttention, compressWeights, compressCache, weights, cache } }) => {
      const key = [
        schedule,
        Math.round(Math.log2(batchSize)),
        Math.round(Math.log2(batches)),
        cpuAttention,
        compressWeights,
        compressCache,
        weights.disk > 0,
        cache.disk > 0,
      ].join(' ');
      return !seen.has(key) && seen.add(key);
    },
  );
}

/**
 * For a tier that no placement fits: how much of it the smallest block takes, the other tiers taken as large as need
 * be.
 */
function* smallestBudget(
  model: CostModel,
  { hardware, shape, workload }: PlanRequest,
  space: SearchSpace,
  usable: Readonly<Record<Tier, number>>,
): Work<Error> {
  const block: BlockChoice = {
    schedule: 'zigzag',
    batchSize: space.batchSizes?.[0] ?? 1,
    batches: space.batchCounts?.[0] ?? 1,
    compressWeights: space.compressWeights[0] ?? 'none',
    compressCache: space.compressCache[0] ?? 'none',
    cpuAttention: space.cpuAttention[0] ?? true,
    tokensPerSquare: space.tokensPerSquare,
    threads: space.threads,
    sparseAttention: space.sparseAttention,
  };
  const setting = { hardware, shape, workload, block };
  const fits = function* (tier: Tier, bytes: number): Work<boolean> {
    const { ranked } = yield* searchPolicy(
      model,
      {
        hardware: { ...hardware, memory: { ...hardware.memory, [`${tier}Bytes`]: bytes / hardware.usableFraction } },
        shape,
        workload,
      },
      {
        ...space,
        maxLatencySeconds: undefined,
        schedules: [block.schedule],
        batchSizes: [block.batchSize],
        batchCounts: [block.batches],
      },
      { ...usable, [tier]: bytes },
    );
    return ranked.length > 0;
  };
  // The tier that more of would help: CPU memory first, as it is the one that is capped most often.
  for (const tier of ['cpu', 'gpu', 'disk'] as const) {
    if (usable[tier] <= 0 || !(yield* fits(tier, 1e16))) continue;
    let [low, high] = [usable[tier], 1e16];
    for (let step = 0; step < 60 && high - low > Math.max(2 ** 20, low * 1e-3); step++) {
      const middle = low * 2 < high ? low * 2 : (low + high) / 2;
      if (yield* fits(tier, middle)) high = middle;
      else low = middle;
    }
    return doesNotFit(usable, high, tier);
  }
  const needs = model.blocks(setting)[0]?.memory.find(({ tier, bytes }) => leastValue(bytes, {}) > usable[tier]);
  return doesNotFit(
    usable,
    needs ? leastValue(needs.bytes, {}) : shape.layerWeightBytes * shape.layers,
    needs?.tier ?? 'cpu',
  );
}
