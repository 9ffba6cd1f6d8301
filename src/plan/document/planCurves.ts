import { paretoFrontier } from '../paretoFrontier.js';
import { choosePolicy } from '../search/choosePolicy.js';
import type { PlanRequest } from '../PlanRequest.js';
import { usableBytes } from '../PlanRequest.js';
import type { Policy } from '../Policy.js';
import { layerFlopsPerSecond, layerFlopsPerToken } from '../model/computeSeconds.js';
import { sizesOf } from '../model/sizes.js';

/** One curve: y over x; undefined where nothing fits. */
export interface Curve {
  readonly x: readonly number[];
  readonly y: readonly (number | undefined)[];
}

/** What the page of `plan --html` draws. */
export interface PlanCurves {
  /** Tokens/s over rows of a block, everything else as good as can be. */
  readonly byBlock: Curve;
  /** Tokens/s over memory of the tier that is scarcest, in GiB. */
  readonly byMemory: Curve & { readonly tier: string };
  /** Tokens/s over seconds until a block's rows are done: the plans that no other beats in both. */
  readonly frontier: Curve;
  /**
   * Operations a second over tokens that share one reading of the weights: what computing, memory and the link that
   * weights come over allow.
   */
  readonly roofline: {
    readonly tokens: readonly number[];
    readonly compute: readonly number[];
    readonly link: readonly (number | undefined)[];
  };
}

/** Curves around a plan: each point is a search of its own, of the plan's kind of block. Pure. */
export function planCurves(request: PlanRequest, policy: Policy): PlanCurves {
  const { hardware, shape, caps = {} } = request;
  const kind = {
    ...request.allow,
    schedules: [policy.schedule],
    cpuAttention: [policy.cpuAttention],
    compressWeights: [policy.compressWeights],
    compressCache: [policy.compressCache],
  };
  const plan = (changed: Partial<PlanRequest>): { tokensPerSecond: number; seconds: number } | undefined => {
    try {
      // Also what is beyond a bound on latency is to be seen.
      const { predicted } = choosePolicy({ ...request, maxLatencySeconds: undefined, allow: kind, ...changed });
      return { tokensPerSecond: predicted.tokensPerSecond, seconds: predicted.wallSeconds };
    } catch {
      return undefined;
    }
  };
  const sizes = [1, 2, 4, 8, 16, 32, 64, 128, 256].filter((size) => size <= (request.workload.rows ?? Infinity));
  const points = sizes.map((batchSize) => plan({ allow: { ...kind, batchSize } }));
  const tier = hardware.memory.gpuBytes > 0 && caps.gpu !== 0 ? 'gpu' : 'cpu';
  const most = usableBytes(hardware)[tier];
  const bytes = [0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1].map(
    (part) => part * Math.min(most, caps[tier] ?? most),
  );
  const memory = bytes.map((cap) => plan({ caps: { ...caps, [tier]: cap } })?.tokensPerSecond);
  // How long one block takes: a job of so many rows would be over soonest in the plan that is fastest. Blocks of one
  // batch are soonest done, those of several make most of the weights that they read.
  const workload = { ...request.workload, rows: undefined };
  const blocks = [undefined, 1].flatMap((batches) =>
    request.workload.rows === undefined && batches === undefined
      ? points
      : sizes.map((batchSize) => plan({ allow: { ...kind, batchSize, ...(batches && { batches }) }, workload })),
  );
  const frontier = paretoFrontier(
    blocks.filter((point) => point !== undefined),
    ({ seconds }) => seconds,
    ({ tokensPerSecond }) => -tokensPerSecond,
  );

  const on = hardware.memory.gpuBytes > 0 && hardware.gpu ? hardware.gpu : hardware.cpu;
  const link =
    hardware.memory.gpuBytes > 0 ? hardware.links.hostToDeviceBytesPerSecond : hardware.links.diskReadBytesPerSecond;
  const tokens = Array.from({ length: 13 }, (_, power) => 2 ** power);
  // Layers stream whole, all experts among them, and compressed where they are.
  const { layerWeightBytes } = sizesOf({ shape, workload: request.workload, block: policy });
  const tokenFlops = layerFlopsPerToken(shape);
  return {
    byBlock: { x: sizes, y: points.map((point) => point?.tokensPerSecond) },
    byMemory: { tier, x: bytes.map((each) => each / 2 ** 30), y: memory },
    frontier: {
      x: frontier.map(({ seconds }) => seconds),
      y: frontier.map(({ tokensPerSecond }) => tokensPerSecond),
    },
    roofline: {
      tokens,
      compute: tokens.map((count) => layerFlopsPerSecond(on, shape, policy.compressWeights, count)),
      link: tokens.map((count) => (link === undefined ? undefined : (count * tokenFlops * link) / layerWeightBytes)),
    },
  };
}
