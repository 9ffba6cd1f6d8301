import type { ScheduleName } from '../engine/schedules/blockSchedules.js';
import { type Affine, valueAt } from './Affine.js';
import type { HardwareProfile } from './HardwareProfile.js';
import type { ModelShape } from './ModelShape.js';
import type { PlacementVariable, PlacementVector } from './Placement.js';
import type { Tier } from '../engine/grid/Tier.js';
import type { BlockChoice } from './Policy.js';
import type { Workload } from './Workload.js';

/** A block of rows' setting: what computes it, and how. */
export interface BlockSetting {
  readonly hardware: HardwareProfile;
  readonly shape: ModelShape;
  readonly workload: Workload;
  readonly block: BlockChoice;
}

/**
 * Sweeps over the layers that cost the same: a layer of them takes the largest of `bounds`, all layers and sweeps
 * `times` as much.
 */
export interface PhaseCost {
  readonly name: string;
  /** Layers of all sweeps of the phase. */
  readonly times: number;
  /** Seconds that each queue is busy for one layer. */
  readonly queues: Readonly<Record<string, Affine>>;
  /** The layer's time is at least each of these: queues, or sums of those that do not overlap. */
  readonly bounds: readonly Affine[];
  /** The one of the bounds that is a square's own way through the layer, where others compute meanwhile. */
  readonly ownWay?: Affine;
  /** Which part of the phase's time is prompts; the rest is decoding. */
  readonly promptShare: number;
}

/** Bytes of one tier at the moment that the name tells; each must stay within the tier's usable memory. */
export interface MemoryTerm {
  readonly tier: Tier;
  readonly when: string;
  readonly bytes: Affine;
}

/** The cost of one block, linear in the placement. */
export interface BlockCost {
  readonly phases: readonly PhaseCost[];
  readonly memory: readonly MemoryTerm[];
  /** Bytes that a run takes beside what it needs, where there is room. */
  readonly spareBytes?: Readonly<Partial<Record<Tier, number>>>;
  /** Shares that are settled before the search. */
  readonly fixed: Readonly<Partial<Record<PlacementVariable, number>>>;
  /** New tokens that the phases' time pays for. */
  readonly newTokens: number;
  /** Rows likewise. */
  readonly rows: number;
  /** Seconds beside the layers', e.g. reading weights once. */
  readonly onceSeconds: number;
  /**
   * Seconds that each part of the machine takes at least for all of it: the whole is never faster. `costModelOf` adds
   * them to every model's; one of your own need not name any.
   */
  readonly floors?: Readonly<Record<string, Affine>>;
}

export const COST_MODEL_NAMES = ['spillway', 'flexgen', 'flexgen-paper', 'lm-offload'] as const;
export type CostModelName = (typeof COST_MODEL_NAMES)[number];

/**
 * A way to cost blocks. Pure. One of your own goes into a request beside the names of those that are there:
 * `choosePolicy({ …, costModel: mine })`; the search minimises what it says.
 */
export interface CostModel {
  readonly name: string;
  /**
   * The costs of a setting; several where a choice of its own is to be made (whether anything is on disk), the one that
   * needs least first.
   */
  blocks(setting: BlockSetting): readonly BlockCost[];
  /** The cost under a placement that is settled, fixed charges included. */
  blockAt(setting: BlockSetting, placement: PlacementVector): BlockCost;
  /** Schedules that are tried where a request names none. */
  readonly schedules: readonly ScheduleName[];
  /** With a GPU: what is tried of attention on the processor, whatever a request allows. Default: what it allows. */
  readonly cpuAttention?: readonly boolean[];
  /** Smallest step of a share that a placement can make; 0 for any. */
  shareStep(setting: BlockSetting): { readonly weights: number; readonly cache: number; readonly activations: number };
}

/** Seconds and memory of a block under one placement. */
export interface CostAt {
  readonly seconds: number;
  readonly prefillSeconds: number;
  readonly decodeSeconds: number;
  readonly tokensPerSecond: number;
  /** The model's own figure, where it is more than the machine can do. */
  readonly promisedTokensPerSecond?: number;
  readonly queueSeconds: Readonly<Record<string, number>>;
  readonly memoryBytes: Readonly<Record<Tier, number>>;
}

/** Evaluates a block's cost at a placement. */
export function costAt(
  { phases, memory, newTokens, onceSeconds, floors = {} }: BlockCost,
  placement: PlacementVector,
): CostAt {
  let [prefillSeconds, decodeSeconds] = [onceSeconds, 0];
  const queueSeconds: Record<string, number> = {};
  for (const { times, queues, bounds, promptShare } of phases) {
    const seconds = times * Math.max(...bounds.map((bound) => valueAt(bound, placement)));
    prefillSeconds += seconds * promptShare;
    decodeSeconds += seconds * (1 - promptShare);
    for (const [queue, term] of Object.entries(queues))
      queueSeconds[queue] = (queueSeconds[queue] ?? 0) + times * valueAt(term, placement);
  }
  const memoryBytes: Record<Tier, number> = { gpu: 0, cpu: 0, disk: 0 };
  for (const { tier, bytes } of memory) memoryBytes[tier] = Math.max(memoryBytes[tier], valueAt(bytes, placement));
  const promised = prefillSeconds + decodeSeconds;
  let seconds = promised;
  for (const [part, floor] of Object.entries(floors)) {
    const least = valueAt(floor, placement);
    // A part in a billion is rounding.
    if (least <= promised * (1 + 1e-9)) continue;
    queueSeconds[part] = Math.max(queueSeconds[part] ?? 0, least);
    seconds = Math.max(seconds, least);
  }
  if (seconds > promised) {
    prefillSeconds = promised > 0 ? prefillSeconds * (seconds / promised) : 0;
    decodeSeconds = seconds - prefillSeconds;
  }
  return {
    seconds,
    prefillSeconds,
    decodeSeconds,
    tokensPerSecond: newTokens / seconds,
    ...(seconds > promised && { promisedTokensPerSecond: newTokens / promised }),
    queueSeconds,
    memoryBytes,
  };
}

/** Names of the tiers that overflow. */
export function overflows(at: Pick<CostAt, 'memoryBytes'>, usable: Readonly<Record<Tier, number>>): Tier[] {
  // A part in a billion is rounding, not memory.
  return (Object.keys(at.memoryBytes) as Tier[]).filter((tier) => at.memoryBytes[tier] > usable[tier] * (1 + 1e-9) + 1);
}
