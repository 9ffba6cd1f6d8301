import { count, lastValueFrom } from 'rxjs';
import { checkMembers, type Check } from './arguments/checkMembers.js';
import { checkSignal } from './arguments/checks.js';
import { whole } from './arguments/memberChecks.js';
import { defaultWindow } from './engine/execution/defaultWindow.js';
import { FollowingRun } from './engine/execution/FollowingRun.js';
import { RowFeed } from './engine/execution/RowFeed.js';
import { Run } from './engine/execution/Run.js';
import { RunRecorder } from './engine/execution/RunRecorder.js';
import { SimulatedDevice } from './engine/execution/SimulatedDevice.js';
import { simulatedLink } from './engine/execution/simulatedLink.js';
import { VirtualTime } from './engine/execution/VirtualTime.js';
import { BusyTime } from './engine/execution/BusyTime.js';
import { hopsOf, type QueueName } from './engine/grid/Task.js';
import { PagePool } from './engine/memory/PagePool.js';
import { peerMovement } from './engine/memory/peerMovement.js';
import { HIDDEN_STATE_BYTES } from './engine/grid/HiddenStates.js';
import { acceptBegin, beginOf, type PeerFacts } from './engine/peers/begin.js';
import { BLOCK_SCHEDULES } from './engine/schedules/blockSchedules.js';
import { UsageError } from './errors/UsageError.js';
import { throughStages } from './operators/throughStages.js';
import { countSweeps } from './plan/model/countSweeps.js';
import { hostAttends, pagesGoFirst } from './plan/model/queues.js';
import { attentionOnGpu, taskSeconds } from './plan/model/taskSeconds.js';
import { sizesOf } from './plan/model/sizes.js';
import type { PipelinePlan } from './plan/pipeline/pipelineOfStages.js';
import type { PipelineRequest } from './plan/pipeline/PipelineRequest.js';
import { shapeOfStage } from './plan/pipeline/stageCost.js';
import { tokensPerSquareOf } from './plan/Policy.js';
import { PAGE_TOKENS } from './plan/reserves.js';
import { planMovement, plannedRows } from './simulatePlan.js';

/** The outcome of a pipeline in virtual time. */
export interface SimulatedPipeline {
  readonly rows: number;
  /** Virtual seconds from the first task's start to the last one's end. */
  readonly seconds: number;
  readonly tokensPerSecond: number;
  /** For each engine, the share of that time in which its busiest queue had nothing to do. */
  readonly idleShares: readonly number[];
}

export interface SimulatePipelineOptions {
  /** That sweep in turn. Default: those of the plan; with 1 the engines wait for each other. */
  readonly microBatches?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

const CHECKS: Readonly<Record<keyof SimulatePipelineOptions, Check>> = {
  microBatches: whole(1),
  signal: checkSignal,
};

/** Beyond that a simulation takes minutes. */
const MOST_SQUARES = 1e6;

/**
 * Runs a planned pipeline through the real schedule, runs, messages and stages, on simulated devices that share a
 * clock, over links with latency and bandwidth: what the closed form averages happens here task by task.
 *
 * @throws UsageError where that takes too many tasks: give fewer rows
 * @throws InterruptedError when the signal fires
 */
export async function simulatePipeline(
  {
    machines,
    shape,
    workload,
    hiddenStates = 'float32',
  }: Pick<PipelineRequest, 'machines' | 'shape' | 'workload' | 'hiddenStates'>,
  { stages, batchSize, batches: slots, microBatches: planned, rows }: PipelinePlan,
  options: SimulatePipelineOptions = {},
): Promise<SimulatedPipeline> {
  checkMembers('options', options, CHECKS);
  const { microBatches = planned, signal } = options;
  // Rows are dealt out evenly, and each batch's squares are as many in every engine.
  const ofBatch = { ...workload, rows: Math.ceil(rows / slots) };
  const squares = stages
    .slice(0, 1)
    .flatMap(({ policy }) => countSweeps(ofBatch, { ...policy, batches: 1 }))
    .reduce((sum, { sweeps }) => sum + sweeps * slots * shape.layers, 0);
  if (squares > MOST_SQUARES)
    throw new UsageError(
      `simulating ${rows} rows would take about ${Math.round(squares / 1e6)} million squares, expected at most ${MOST_SQUARES / 1e6} million: give fewer rows`,
    );
  // Tasks name what engines hold, in float32.
  const onLink = HIDDEN_STATE_BYTES[hiddenStates] / HIDDEN_STATE_BYTES.float32;
  const time = new VirtualTime();
  const links = machines.map(({ link: { latencySeconds } }) =>
    simulatedLink(time, { latencySeconds, capacity: slots }),
  );
  const seen = { first: Infinity, last: 0, busy: machines.map(() => new Map<QueueName, BusyTime>()) };
  const runs = stages.map(({ policy, layers }, stage) => {
    const machine = machines[stage];
    const [source, sink] = [links.at(stage - 1)?.source, links[stage]?.sink];
    if (!machine || !source || !sink)
      throw new UsageError('plan: found more stages than machines, expected one on each');
    const { hardware, link } = machine;
    const setting = {
      hardware,
      shape: shapeOfStage({
        shape,
        layers: layers.count,
        embeds: stage === 0,
        samples: stage === stages.length - 1,
      }),
      workload,
      // A square of all batches that sweep together.
      block: policy,
    };
    const seconds = taskSeconds(setting, policy);
    const tier = hardware.memory.gpuBytes > 0 ? ('gpu' as const) : ('cpu' as const);
    const device = new SimulatedDevice({
      time,
      computeTier: tier,
      hostAttends: hostAttends(setting, policy),
      gpuAttention: attentionOnGpu(setting, policy),
      pagesFirst: pagesGoFirst(setting, policy),
      duration: (task) => (task.to === 'peer' ? (task.bytes * onLink) / link.bytesPerSecond : seconds(task)),
    });
    device.completed$.subscribe((burst) => {
      for (const { event } of burst) {
        const { timing, task } = event;
        if (!timing) continue;
        seen.first = Math.min(seen.first, timing.start);
        seen.last = Math.max(seen.last, timing.end);
        for (const { queue, from, to } of hopsOf(task)) {
          if (from === 'peer' || to === 'peer') continue;
          // Of weights that wait for pages on one of their links, on all of them.
          const busy = seen.busy[stage]?.get(queue) ?? new BusyTime();
          seen.busy[stage]?.set(queue, busy);
          busy.add(timing.start, timing.end);
        }
      }
    });
    const grid = {
      layers: layers.count,
      part: { first: layers.first, of: shape.layers },
      slots,
      rowsPerSlot: batchSize,
      tokensPerSquare: Math.max(tokensPerSquareOf(policy), batchSize),
    };
    const sizes = sizesOf(setting);
    // Rows that have ended hold their pages until they have come round.
    const pages = 2 * slots * batchSize * sizes.rowPages;
    const pool = new PagePool(
      policy.cache.gpu > 0 ? 0 : pages,
      PAGE_TOKENS,
      undefined,
      policy.cache.gpu > 0 ? { pages, share: 1 } : undefined,
    );
    const setup = {
      id: 1,
      device,
      grid,
      pool,
      recorder: new RunRecorder({ model: shape.name, policy: { ...policy }, loadSeconds: 0, memory: () => ({}) }),
      window: defaultWindow(grid),
      movement: peerMovement(planMovement(setting, policy, sizes, tier), grid, sizes.tokenActivationBytes, tier),
      peers: { source, sink },
      signal,
    };
    const facts: PeerFacts = {
      model: {
        layers: shape.layers,
        hiddenSize: shape.hiddenSize,
        vocabularySize: shape.vocabularySize,
        family: shape.name,
        contents: '',
      },
      layers,
      grid: { slots, rowsPerSlot: batchSize, tokensPerSquare: grid.tokensPerSquare },
      streams: false,
      cache: { pageTokens: PAGE_TOKENS, diskShare: 0, mostDiskPages: 0, gpuShare: policy.cache.gpu },
      pages: { gpu: pool.gpu.pages, memory: pool.capacity, disk: 0 },
      sharesPages: false,
    };
    return stage === 0
      ? new Run<number>({
          ...setup,
          schedule: BLOCK_SCHEDULES[policy.schedule].create(),
          feed: new RowFeed(plannedRows(rows, { ...workload, sharedPrefixTokens: 0 }), 2 * slots * batchSize),
          begin: beginOf(facts),
          microBatches,
        })
      : new FollowingRun({ ...setup, join: (begin) => acceptBegin(begin, facts) });
  });
  await Promise.all(runs.map((run) => lastValueFrom(throughStages<unknown>(run).pipe(count()))));
  await Promise.all(runs.map((run) => run.drained));
  const seconds = Math.max(0, seen.last - Math.min(seen.first, seen.last));
  return {
    rows,
    seconds,
    tokensPerSecond: (rows * workload.newTokens) / seconds,
    idleShares: seen.busy.map((busy) =>
      Math.max(0, 1 - Math.max(0, ...[...busy.values()].map((each) => each.seconds)) / seconds),
    ),
  };
}
