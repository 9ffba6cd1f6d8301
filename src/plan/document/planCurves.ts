import { drained, type Work } from '../../collections/drained.js';
import { paretoFrontier } from '../paretoFrontier.js';
import { predict, type Prediction } from '../predict.js';
import { choosePolicyInParts } from '../search/choosePolicy.js';
import type { PlanRequest } from '../PlanRequest.js';
import { usableBytes } from '../PlanRequest.js';
import type { Policy } from '../Policy.js';
import { layerFlopsPerSecond, layerFlopsPerToken } from '../model/computeSeconds.js';
import { sizesOf } from '../model/sizes.js';

/** One curve: y over x; undefined where nothing fits. */
export interface Curve {
  readonly x: readonly number[];
  readonly y: readonly (number | undefined)[];
  /** The index of the plan itself, and its value. */
  readonly chosen: number;
  readonly own: number;
}

/** Curves that the page of `plan --html` draws. */
export interface PlanCurves {
  /** Tokens/s over rows of a block, everything else as good as can be. */
  readonly byBlock: Curve;
  /** Tokens/s over memory of the tier that is scarcest, in GiB. */
  readonly byMemory: Curve & { readonly tier: string };
  /** Tokens/s over seconds until a block's rows are done: the plans that no other beats in both. */
  readonly frontier: Curve;
  /** The same plans' cost of tokens over those seconds, where the hardware file has a price, or watts. */
  readonly costs?: Curve & { readonly unit: 'dollars a million tokens' | 'joules a token' };
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
export function planCurves(request: PlanRequest, policy: Policy, predicted?: Prediction): PlanCurves {
  return drained(planCurvesInParts(request, policy, predicted));
}

/** The same in slices, between which others may have their turn. */
export function* planCurvesInParts(
  request: PlanRequest,
  policy: Policy,
  predicted = predict(request, policy),
): Work<PlanCurves> {
  const { hardware, shape, caps = {} } = request;
  const kind = {
    ...request.allow,
    schedules: [policy.schedule],
    cpuAttention: [policy.cpuAttention],
    compressWeights: [policy.compressWeights],
    compressCache: [policy.compressCache],
  };
  const plan = function* (changed: Partial<PlanRequest>): Work<Point | undefined> {
    try {
      // Also what is beyond a bound on latency is to be seen.
      const { predicted } = yield* choosePolicyInParts({
        ...request,
        maxLatencySeconds: undefined,
        allow: kind,
        ...changed,
      });
      return { tokensPerSecond: predicted.tokensPerSecond, seconds: predicted.wallSeconds };
    } catch {
      return undefined;
    }
  };
  // The plan is a point of each curve: what a search that varies one thing comes to there is no better.
  const own = { tokensPerSecond: predicted.tokensPerSecond, seconds: predicted.wallSeconds };
  const sizes = [...new Set([1, 2, 4, 8, 16, 32, 64, 128, 256, policy.batchSize])]
    .filter((size) => size <= Math.max(policy.batchSize, request.workload.rows ?? Infinity))
    .sort((a, b) => a - b);
  const points: (Point | undefined)[] = [];
  for (const batchSize of sizes)
    points.push(batchSize === policy.batchSize ? own : yield* plan({ allow: { ...kind, batchSize } }));
  const tier = hardware.memory.gpuBytes > 0 && caps.gpu !== 0 ? 'gpu' : 'cpu';
  const most = usableBytes(hardware)[tier];
  const bytes = [0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1].map(
    (part) => part * Math.min(most, caps[tier] ?? most),
  );
  const memory: (number | undefined)[] = [];
  for (const cap of bytes.slice(0, -1)) memory.push((yield* plan({ caps: { ...caps, [tier]: cap } }))?.tokensPerSecond);
  memory.push(own.tokensPerSecond);
  // How long one block takes: a job of so many rows would be over soonest in the plan that is fastest. Blocks of one
  // batch are soonest done, those of several make most of the weights that they read.
  const workload = { ...request.workload, rows: undefined };
  const blocks = request.workload.rows === undefined ? [...points] : [];
  for (const batches of request.workload.rows === undefined ? [1] : [undefined, 1])
    for (const batchSize of sizes)
      blocks.push(yield* plan({ allow: { ...kind, batchSize, ...(batches && { batches }) }, workload }));
  const alone = blockOf(request, policy);
  const better = paretoFrontier(
    blocks.filter((point) => point !== undefined),
    ({ seconds }) => seconds,
    ({ tokensPerSecond }) => -tokensPerSecond,
  );
  const others = better.filter((point) => !isDominated(point, alone));
  // By itself another block may be better in both: the plan stands below the curve then.
  const isBelow = others.some((point) => isDominated(alone, point));
  const frontier = [...others.filter(({ seconds }) => seconds !== alone.seconds), alone].sort(
    (a, b) => a.seconds - b.seconds,
  );

  const latency: Curve = {
    x: frontier.map(({ seconds }) => seconds),
    y: frontier.map((point) => (isBelow && point === alone ? undefined : point.tokensPerSecond)),
    chosen: frontier.indexOf(alone),
    own: alone.tokensPerSecond,
  };
  const costs = costsOf(hardware, latency);

  const on = hardware.memory.gpuBytes > 0 && hardware.gpu ? hardware.gpu : hardware.cpu;
  const link =
    hardware.memory.gpuBytes > 0 ? hardware.links.hostToDeviceBytesPerSecond : hardware.links.diskReadBytesPerSecond;
  const tokens = Array.from({ length: 13 }, (_, power) => 2 ** power);
  // Layers stream whole, all experts among them, and compressed where they are.
  const { layerWeightBytes } = sizesOf({ shape, workload: request.workload, block: policy });
  const tokenFlops = layerFlopsPerToken(shape);
  return {
    byBlock: {
      x: sizes,
      y: points.map((point) => point?.tokensPerSecond),
      chosen: sizes.indexOf(policy.batchSize),
      own: own.tokensPerSecond,
    },
    byMemory: {
      tier,
      x: bytes.map((each) => each / 2 ** 30),
      y: memory,
      chosen: bytes.length - 1,
      own: own.tokensPerSecond,
    },
    frontier: latency,
    ...(costs && { costs }),
    roofline: {
      tokens,
      compute: tokens.map((count) => layerFlopsPerSecond(on, shape, policy.compressWeights, count)),
      link: tokens.map((count) => (link === undefined ? undefined : (count * tokenFlops * link) / layerWeightBytes)),
    },
  };
}

/** A curve of speeds as one of costs. @returns undefined where the machine has neither a price nor watts */
function costsOf(
  { dollarsPerHour, watts }: PlanRequest['hardware'],
  { x, y, chosen, own }: Curve,
): PlanCurves['costs'] {
  const [unit, perSecond] =
    dollarsPerHour === undefined
      ? (['joules a token', watts] as const)
      : (['dollars a million tokens', (dollarsPerHour / 3600) * 1e6] as const);
  if (perSecond === undefined) return undefined;
  const cost = (tokensPerSecond: number): number => perSecond / tokensPerSecond;
  return { unit, x, y: y.map((value) => (value === undefined ? undefined : cost(value))), chosen, own: cost(own) };
}

interface Point {
  readonly tokensPerSecond: number;
  readonly seconds: number;
}

function isDominated(point: Point, by: Point): boolean {
  return by.seconds <= point.seconds && by.tokensPerSecond >= point.tokensPerSecond;
}

/** A block of the plan by itself. */
function blockOf(request: PlanRequest, policy: Policy): Point {
  const { tokensPerSecond, wallSeconds } = predict(
    { ...request, workload: { ...request.workload, rows: undefined } },
    policy,
  );
  return { tokensPerSecond, seconds: wallSeconds };
}
