import { blockSeconds } from './blockSeconds.js';
import { MemoryBudgetError } from '../errors/MemoryBudgetError.js';
import { UsageError } from '../errors/UsageError.js';
import { type BlockCost, type BlockSetting, type CostAt, type CostModel, costAt, overflows } from './CostModel.js';
import { costModelOf } from './costModels.js';
import type { HardwareProfile } from './HardwareProfile.js';
import { vectorOf, type PlacementVector } from './Placement.js';
import type { Tier } from '../engine/grid/Tier.js';
import { cappedHardware, parseRequest, usableBytes, type PlanRequest } from './PlanRequest.js';
import { policyArgument, type Policy } from './Policy.js';
import { spendingOf, type Spending } from './spending.js';
import { unpredictedOf } from './unpredicted.js';
import { pacedSetting } from './model/paced.js';

/** The figures expected of a policy: the object `predicted` of `plan --json` and of `--stats`. */
export interface Prediction extends Omit<CostAt, 'seconds'> {
  /** All rows of the workload; of one block where their number is open. */
  readonly wallSeconds: number;
  readonly rows: number;
  readonly fits: boolean;
  /**
   * Says which tiers overflow, and by how much; where the cost model promises more than the machine can do; and what of
   * the policy is not predicted.
   */
  readonly warning?: string;
  /** The latency of one block, from its first prompt to its last token, where a search was bound by it. */
  readonly latencySeconds?: number;
  /** Money and energy, where the hardware file has a price or watts. */
  readonly spending?: Spending;
  /** The queue that the time is spent on. */
  readonly bottleneck: string;
}

/**
 * Everything that costing a policy needs, put together; with the pace at which memory lets rows in, where it does not
 * hold all of a diagonal block.
 * @throws UsageError for a request or a policy that makes no sense
 */
export function settingOf(
  request: PlanRequest,
  given: Policy,
): {
  readonly model: CostModel;
  readonly policy: Policy;
  readonly setting: BlockSetting;
  readonly placement: PlacementVector;
  readonly cost: BlockCost;
} {
  const { hardware, shape, workload, caps, costModel = 'spillway' } = parseRequest(request);
  const policy = policyArgument(given);
  const model = costModelOf(costModel);
  const { weights: _w, cache: _c, activations: _h, ...block } = policy;
  const capped = cappedHardware(hardware, caps);
  checkTiers(capped, policy);
  const whole = { hardware: capped, shape, workload, block };
  const placement = vectorOf(policy);
  const setting = pacedSetting(model, whole, placement, usableBytes(capped).cpu) ?? whole;
  return { model, policy, setting, placement, cost: model.blockAt(setting, placement) };
}

/**
 * Anything placed on a tier that is not there would take no memory, and no time.
 * @throws UsageError for a policy that puts something on a GPU that the machine has not
 */
export function checkTiers({ memory, name: machine }: HardwareProfile, policy: Policy): void {
  if (memory.gpuBytes > 0) return;
  for (const name of ['weights', 'cache', 'activations'] as const)
    if (policy[name].gpu > 0)
      throw new UsageError(
        `policy: found ${name}.gpu ${policy[name].gpu}, expected 0: ${JSON.stringify(machine)} has no GPU, or its memory is capped at 0`,
      );
}

/**
 * Predicts a given policy, whether it fits or not. Pure.
 * @throws UsageError for a request or a policy that makes no sense
 */
export function predict(request: PlanRequest, policy: Policy): Prediction {
  const { model, setting, placement, cost } = settingOf(request, policy);
  const prediction = predictionOf(costAt(cost, placement), cost, setting.hardware);
  const options = unpredictedOf(policy, model.name);
  if (options.length === 0) return prediction;
  const warning = `no cost model knows the policy's ${options.join(' and ')}, and the figures are without`;
  return { ...prediction, warning: prediction.warning === undefined ? warning : `${prediction.warning}; ${warning}` };
}

/**
 * A block's latency under a given policy: `blockSeconds`. Pure.
 * @throws UsageError for a request or a policy that makes no sense
 */
export function blockSecondsOf(request: PlanRequest, policy: Policy): number {
  const { hardware, shape, workload, caps, costModel = 'spillway' } = parseRequest(request);
  const capped = cappedHardware(hardware, caps);
  checkTiers(capped, policy);
  const setting = { hardware: capped, shape, workload, block: policy };
  return blockSeconds(costModelOf(costModel), setting, vectorOf(policy), usableBytes(capped).cpu);
}

export function predictionOf(at: CostAt, cost: BlockCost, hardware: HardwareProfile): Prediction {
  const usable = usableBytes(hardware);
  const { seconds, ...rest } = at;
  const over = overflows(at, usable);
  const words = over.map(
    (tier) => `${tier}: ${formatGiB(at.memoryBytes[tier])} needed, ${formatGiB(usable[tier])} usable`,
  );
  const bottleneck = bottleneckOf(at);
  const { promisedTokensPerSecond } = at;
  const warnings = [
    ...(over.length > 0 ? [`the policy does not fit (${words.join('; ')})`] : []),
    ...(promisedTokensPerSecond === undefined
      ? []
      : [
          `the cost model promises ${promisedTokensPerSecond.toPrecision(3)} tokens/s, more than the machine's ${bottleneck} allows`,
        ]),
  ];
  const { cpu } = at.memoryBytes;
  const spending = spendingOf(hardware, seconds, cost.newTokens);
  const spare = Math.max(0, Math.min(cost.spareBytes?.cpu ?? 0, usable.cpu - cpu));
  return {
    ...rest,
    memoryBytes: { ...at.memoryBytes, cpu: cpu + spare },
    wallSeconds: seconds,
    rows: cost.rows,
    fits: over.length === 0,
    ...(spending && { spending }),
    ...(warnings.length > 0 && { warning: warnings.join('; ') }),
    bottleneck,
  };
}

/** The queue that is busiest; the ones beside it wait for it part of their time. */
function bottleneckOf({ queueSeconds }: CostAt): string {
  return Object.entries(queueSeconds).reduce<[string, number]>(
    (best, each) => (each[1] > best[1] ? each : best),
    ['none', 0],
  )[0];
}

function formatGiB(bytes: number): string {
  return `${(bytes / 2 ** 30).toFixed(2)} GiB`;
}

/** The error for a request of which nothing fits. */
export function doesNotFit(usable: Readonly<Record<Tier, number>>, neededBytes: number, tier: Tier): MemoryBudgetError {
  return new MemoryBudgetError(tier, Math.floor(usable[tier]), Math.ceil(neededBytes), 'the smallest plan');
}
