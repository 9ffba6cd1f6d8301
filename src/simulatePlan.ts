import { lastValueFrom, count } from 'rxjs';
import { checkMembers, type Check } from './arguments/checkMembers.js';
import { checkFunction, checkSignal } from './arguments/checks.js';
import { found } from './arguments/found.js';
import { membersOf } from './arguments/isObject.js';
import { BusyTime } from './engine/execution/BusyTime.js';
import { defaultWindow } from './engine/execution/defaultWindow.js';
import { GREEDY } from './engine/execution/greedy.js';
import { RowFeed } from './engine/execution/RowFeed.js';
import { Run } from './engine/execution/Run.js';
import { RunRecorder, type MemoryUse } from './engine/execution/RunRecorder.js';
import type { RunRow } from './engine/execution/RunRow.js';
import { SimulatedDevice } from './engine/execution/SimulatedDevice.js';
import type { TaskEvent } from './engine/grid/Task.js';
import type { ComputeTier } from './engine/grid/Tier.js';
import { movement, movementOnGpu, type Movement } from './engine/memory/movement.js';
import { PagePool } from './engine/memory/PagePool.js';
import { total } from './engine/grid/pageCounts.js';
import { pagesOfRows, placePages } from './engine/memory/placePages.js';
import type { BlockSetting } from './plan/CostModel.js';
import { hostShare, tokensPerSquareOf, type Policy } from './plan/Policy.js';
import { settingOf } from './plan/predict.js';
import { parseRequest, type PlanRequest } from './plan/PlanRequest.js';
import { valuesRead } from './plan/model/chosenValues.js';
import { sizesOf, type Sizes } from './plan/model/sizes.js';
import { hostAttends, pagesGoFirst } from './plan/model/queues.js';
import { attentionOnGpu, taskSeconds } from './plan/model/taskSeconds.js';
import { PAGE_TOKENS } from './plan/reserves.js';
import { checkSchedule } from './engine/rows/checkRunOptions.js';
import { BLOCK_SCHEDULES } from './engine/schedules/blockSchedules.js';
import type { Schedule } from './engine/schedules/Schedule.js';
import { UsageError } from './errors/UsageError.js';
import type { Stage } from './operators/stageInternals.js';
import { throughStages } from './operators/throughStages.js';
import type { TraceEvent } from './RunStats.js';
import type { StageContext } from './engine/execution/Run.js';

/** The outcome of a plan in virtual time. */
export interface SimulatedPlan {
  readonly rows: number;
  readonly newTokens: number;
  /** Virtual seconds from the first task's start to the last one's end. */
  readonly seconds: number;
  readonly tokensPerSecond: number;
  readonly queueSeconds: Readonly<Record<string, number>>;
  readonly tasks: number;
  /** On all tiers. */
  readonly peakPages: number;
}

export interface SimulateOptions {
  /** Every task as a Chrome trace event, as a real run writes them; times are virtual. */
  readonly onTrace?: ((event: TraceEvent) => void) | undefined;
  /** A schedule to try instead of the policy's. */
  readonly schedule?: Schedule | undefined;
  /** Stages to try instead of the default ones. */
  readonly pipeline?: ((run: StageContext) => Stage) | undefined;
  /** Told every task that is through: what learns from real runs learns from simulated ones likewise. */
  readonly timings?: { completed(event: TaskEvent): void } | undefined;
  readonly signal?: AbortSignal | undefined;
}

const CHECKS: Readonly<Record<keyof SimulateOptions, Check>> = {
  onTrace: checkFunction,
  schedule: checkSchedule,
  pipeline: checkFunction,
  timings: (name, value) => {
    if (typeof membersOf(value)['completed'] !== 'function')
      throw new UsageError(`${name}: found ${found(value)}, expected an object with a method completed`);
  },
  signal: checkSignal,
};

/** A simulation of more tasks than this would take minutes. */
const MOST_TASKS = 4e6;

/**
 * Runs a policy through the real schedule (the policy's, or one of one's own), run and stages on the simulated device,
 * with durations from our cost model.
 * What the closed form averages happens here task by task.
 *
 * @throws UsageError for a request or a policy that makes no sense, or that takes too many tasks: give fewer rows;
 * ScheduleError for a schedule that breaks a path
 */
export async function simulatePlan(
  request: PlanRequest,
  given: Policy,
  options: SimulateOptions = {},
): Promise<SimulatedPlan> {
  checkMembers('options', options, CHECKS);
  const { policy, setting, cost } = settingOf({ ...parseRequest(request), costModel: 'spillway' }, given);
  const { shape, workload, hardware } = setting;
  const { promptTokens, newTokens, sharedPrefixTokens = 0 } = workload;
  const sizes = sizesOf(setting);
  const slots = policy.batches;
  const grid = {
    layers: shape.layers,
    slots,
    rowsPerSlot: policy.batchSize,
    tokensPerSquare: Math.max(tokensPerSquareOf(policy), policy.batchSize),
  };
  const { rows } = cost;
  const sweeps = cost.phases.reduce((sum, { times }) => sum + times, 0);
  if (sweeps * slots * 4 > MOST_TASKS)
    throw new UsageError(
      `simulating ${rows} rows would take about ${Math.round((sweeps * slots * 4) / 1e6)} million tasks: give fewer rows`,
    );

  const computeTier = hardware.memory.gpuBytes > 0 ? ('gpu' as const) : ('cpu' as const);
  const device = new SimulatedDevice({
    computeTier,
    hostAttends: hostAttends(setting, policy),
    gpuAttention: attentionOnGpu(setting, policy),
    pagesFirst: pagesGoFirst(setting, policy),
    duration: taskSeconds(setting, policy),
  });
  // A row's pages are free once its last square is through, when the next sweep has been planned already: room for that
  // too, or places stay empty for a sweep.
  const held = Math.min(rows, 2 * slots * policy.batchSize);
  const { gpu: gpuShare, disk: diskShare } = policy.cache;
  const per = placePages(sizes.rowPages * PAGE_TOKENS, {
    pageTokens: PAGE_TOKENS,
    gpuShare,
    diskShare,
    mostDiskPages: Infinity,
  });
  const { cachePages = Infinity } = workload;
  const sharePrefixes = sharedPrefixTokens > 0 && (computeTier === 'cpu' || diskShare === 0 || hostShare(policy) === 0);
  const all = pagesOfRows(per, held, sharePrefixes ? sizes.sharedPages : 0);
  const pool = new PagePool(
    Math.min(all.memory, cachePages),
    PAGE_TOKENS,
    { pages: all.disk, share: diskShare, mostPerRow: Infinity },
    { pages: all.gpu, share: gpuShare },
  );
  const recorder = new RunRecorder({
    model: shape.name,
    policy: { ...policy },
    loadSeconds: 0,
    onTrace: options.onTrace,
    timings: options.timings,
    memory: () => cacheBytes(pool, sizes.pageBytes),
  });
  const seen = { first: Infinity, last: 0, tasks: 0, queues: new Map<string, BusyTime>() };
  device.completed$.subscribe((burst) => {
    for (const { event } of burst) note(event, seen);
  });
  const window = defaultWindow({ slots });
  const run = new Run<number>({
    id: 1,
    device,
    grid,
    pool,
    recorder,
    window,
    movement: planMovement(setting, policy, sizes, computeTier),
    schedule: options.schedule ?? BLOCK_SCHEDULES[policy.schedule].create(),
    // Rows for every sweep that the window lets begin at once: a place that stays empty for want of a row would be the
    // simulation's doing.
    feed: new RowFeed(
      plannedRows(rows, { promptTokens, newTokens, sharedPrefixTokens }),
      slots * policy.batchSize * (2 + Math.ceil(window / (shape.layers * slots))),
    ),
    signal: options.signal,
    sharePrefixes,
  });
  await lastValueFrom(throughStages(run, options.pipeline).pipe(count()));
  await run.drained;
  await device.close();
  const seconds = Math.max(0, seen.last - Math.min(seen.first, seen.last));
  return {
    rows,
    newTokens: rows * newTokens,
    seconds,
    tokensPerSecond: (rows * newTokens) / seconds,
    queueSeconds: Object.fromEntries([...seen.queues].map(([queue, busy]) => [queue, busy.seconds])),
    tasks: seen.tasks,
    peakPages: total(pool.peakUsed),
  };
}

/** Says what the KV cache takes of each tier that has any of it. */
function cacheBytes({ gpu, capacity, disk, used, peakUsed }: PagePool, pageBytes: number): MemoryUse {
  const tiers = {
    'gpu cache': [gpu.pages, used.gpu, peakUsed.gpu],
    'cpu cache': [capacity, used.memory, peakUsed.memory],
    'disk cache': [disk.pages, used.disk, peakUsed.disk],
  } as const;
  return Object.fromEntries(
    Object.entries(tiers)
      .filter(([, [pages]]) => pages > 0)
      .map(([tier, [pages, now, most]]) => [
        tier,
        { capacityBytes: pages * pageBytes, usedBytes: now * pageBytes, peakBytes: most * pageBytes },
      ]),
  );
}

function note(
  { task, timing }: TaskEvent,
  seen: { first: number; last: number; tasks: number; readonly queues: Map<string, BusyTime> },
): void {
  if (!timing) return;
  seen.tasks++;
  seen.first = Math.min(seen.first, timing.start);
  seen.last = Math.max(seen.last, timing.end);
  const busy = seen.queues.get(task.queue) ?? new BusyTime();
  seen.queues.set(task.queue, busy);
  busy.add(timing.start, timing.end);
}

/** Says what moves under a policy. Of the cache, what the CPU attends to beside a GPU stays where it lives. */
export function planMovement(
  setting: BlockSetting,
  { weights, cache, activations }: Policy,
  sizes: Sizes,
  computeTier: ComputeTier,
): Movement {
  const { shape, block } = setting;
  const { keyShare, valueShare } = valuesRead(setting);
  const bytes = {
    layerWeights: new Array<number>(shape.layers).fill(sizes.layerWeightBytes),
    tokenCache: sizes.tokenCacheBytes,
    tokenActivations: sizes.tokenActivationBytes,
    decodingShare: keyShare + valueShare,
  };
  const placement = { weights, cache, activations };
  return computeTier === 'gpu'
    ? movementOnGpu(placement, { ...bytes, pageTokens: PAGE_TOKENS }, shape.layers, hostShare(block))
    : movement(placement, bytes, computeTier, shape.layers);
}

/** Tokens of each row. */
interface PlannedRow {
  readonly promptTokens: number;
  readonly newTokens: number;
  readonly sharedPrefixTokens: number;
}

/** Rows of a workload, without texts. */
export async function* plannedRows(
  rows: number,
  { promptTokens, newTokens, sharedPrefixTokens }: PlannedRow,
): AsyncGenerator<RunRow<number>> {
  const prefix = new Array<number>(sharedPrefixTokens).fill(0);
  for (let index = 0; index < rows; index++) {
    // After what all have in common no two begin alike.
    const tokens = [...prefix, ...new Array<number>(promptTokens - sharedPrefixTokens).fill(index + 1)];
    let sampled = 0;
    yield {
      sequence: {
        ...GREEDY,
        tokens,
        capacityTokens: promptTokens + newTokens,
      },
      newTokens,
      accept: (head, row) => (head.sampled.has(row) && ++sampled >= newTokens ? index : undefined),
    };
  }
}
