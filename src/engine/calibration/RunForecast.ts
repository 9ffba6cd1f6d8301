import { groupRules } from '../memory/cacheGroups.js';
import { loadAddon } from '../../bindings/loadAddon.js';
import { UsageError } from '../../errors/UsageError.js';
import type { RunStats } from '../../RunStats.js';
import { TaskTimings } from './TaskTimings.js';
import type { Placement } from '../memory/movement.js';
import type { Opened } from '../open/Opened.js';
import { cpuAttentionOf } from '../open/gpuMemory.js';
import { chooseBlock } from '../../plan/search/chooseBlock.js';
import { correctionsOf } from './learn.js';
import type { Corrections } from '../../plan/corrections.js';
import type { HardwareProfile } from '../../plan/HardwareProfile.js';
import type { PlanRequest } from '../../plan/PlanRequest.js';
import { predictRun, type CachePages, type PredictedRun, type RunTotals } from './predictRun.js';
import { keptProfilePath } from '../../profile/cachedProfile.js';
import { scheduleNamed } from '../schedules/blockSchedules.js';
import { correctionsPath, learnRun } from './correctionsFile.js';
import { WorkloadDrift } from './WorkloadDrift.js';

/** A run that has been. */
export interface SeenRun {
  readonly schedule: string;
  readonly totals: RunTotals;
  /** It went through stages that are not the default ones: of them nothing is known. */
  readonly ownStages: boolean;
  /** Other calls were in it: what they took of the machine is not known. */
  readonly shared: boolean;
  /** The times its tasks took; undefined where they are of no use. */
  readonly timings: TaskTimings | undefined;
}

/** The facts of an engine that are decided by its opening. */
export type ForecastFacts = Pick<Opened, 'plan' | 'settings' | 'grid' | 'cache' | 'gpu'> & {
  readonly reserved: Pick<Opened['reserved'], 'hostBytes'>;
};

/**
 * The expectations of an open engine about its runs: how long they take, and how many rows should share a pass where
 * rows turn out otherwise than planned.
 */
export class RunForecast {
  /** The block of a run, and where things are, as the cost model has it. */
  readonly block: Parameters<typeof predictRun>[1];

  /** Where a bound on the latency is to be kept, and how many rows share a pass is not what the caller said. */
  readonly drift: WorkloadDrift | undefined;

  /** The machine's price and watts, where its hardware file has them. */
  readonly rates: Pick<HardwareProfile, 'dollarsPerHour' | 'watts'>;

  /** Most rows that may be under way together, where that is not all that there is a place for. */
  readonly mostRows: (() => number) | undefined;

  /** The lessons of runs that ended before the next one begins. */
  private corrections: Corrections | undefined;
  private readonly underWay = new Set<TaskTimings>();
  private learning: Promise<void> = Promise.resolve();

  constructor(
    private readonly opened: ForecastFacts,
    private readonly placement: Placement,
  ) {
    const {
      plan: { request, report, options },
      settings: { numerics, block },
      grid,
    } = opened;
    const { compressWeights, compressCache, sparseAttention } = numerics;
    this.block = {
      batchSize: block.rowsPerSlot,
      batches: grid.slots,
      tokensPerSquare: grid.tokensPerSquare,
      ...placement,
      compressWeights,
      compressCache,
      cpuAttention: opened.gpu ? cpuAttentionOf(opened.gpu) : true,
      ...(sparseAttention < 1 && { sparseAttention }),
      threads: block.threads,
    };
    this.corrections = request?.hardware.corrections;
    const { hardware } = options;
    this.rates = (typeof hardware === 'object' ? hardware : request?.hardware) ?? {};
    const bounded = request?.maxLatencySeconds !== undefined && request.allow?.batchSize === undefined;
    if (report.origin === 'auto' && bounded && !opened.gpu) {
      const drift = new WorkloadDrift(request.workload, block.slots * block.rowsPerSlot, (workload) =>
        this.rowsFor({ ...request, workload }),
      );
      this.drift = drift;
      this.mostRows = () => drift.rows;
    }
  }

  /**
   * For a run that begins: what takes down its tasks. Undefined where the model does not know the machine, or what is
   * done on it: stages of one's own, other instructions than were measured, sparse attention.
   * @param machine tells how much of the machine the run has; replaced in tests
   */
  timings(
    schedule: string,
    ownStages: boolean,
    machine?: ConstructorParameters<typeof TaskTimings>[3],
  ): TaskTimings | undefined {
    const { plan, settings } = this.opened;
    const { request } = plan;
    const { instructionSet, sparseAttention } = settings.numerics;
    const name = scheduleNamed(schedule);
    if (!request || ownStages || name === undefined || sparseAttention < 1) return undefined;
    const { hardware, shape, workload } = request;
    if (hardware.machine.instructionSet !== undefined && hardware.machine.instructionSet !== instructionSet)
      return undefined;
    return new TaskTimings(
      { hardware, shape, workload, block: { ...this.block, schedule: name } },
      this.block,
      this.corrections,
      machine,
    );
  }

  /** The run has begun. */
  began(timings: TaskTimings | undefined): void {
    if (timings) this.underWay.add(timings);
    if (this.underWay.size > 1) for (const each of this.underWay) each.share();
  }

  /** Gives what a run's statistics say beside what was measured. */
  of(run: SeenRun): Pick<RunStats, 'predicted' | 'plan' | 'corrections'> {
    const { origin, why, machineSpeed } = this.opened.plan.report;
    return {
      ...this.predicted(run),
      plan: {
        origin,
        ...(why !== undefined && { why }),
        ...(machineSpeed && { machineSpeed }),
        replans: this.drift?.replans ?? [],
      },
    };
  }

  /** A run is over, and its statistics are out: what it taught corrects the runs after it. */
  ended(timings: TaskTimings | undefined): void {
    if (!timings || !this.underWay.delete(timings)) return;
    const { learning } = this.opened.plan;
    if (!learning) return;
    const { work, undisturbed } = timings.end();
    this.learning = this.learning
      .then(async () => {
        const path = correctionsPath(await keptProfilePath(learning.options, loadAddon().machine()));
        this.corrections = correctionsOf(await learnRun(path, learning.profile, work, undisturbed));
      })
      .catch(() => undefined);
  }

  /** Resolves when what runs taught is kept. */
  learned(): Promise<void> {
    return this.learning;
  }

  private predicted({
    schedule,
    totals,
    ownStages,
    shared,
    timings,
  }: SeenRun): Pick<RunStats, 'predicted' | 'corrections'> {
    const { block } = this;
    const { request, report, learning } = this.opened.plan;
    if (!request || ownStages || shared) return {};
    const batchSize = this.drift ? Math.ceil(this.drift.rows / block.batches) : block.batchSize;
    const { corrections: _, ...plain } = request.hardware;
    const by = (applied: Corrections | undefined): PredictedRun | undefined =>
      predictRun(
        { ...request, hardware: { ...plain, ...(applied && { corrections: applied }) } },
        { ...block, batchSize },
        schedule,
        totals,
        this.cache,
      );
    const applied = timings ? timings.applied : this.corrections;
    const run = by(applied);
    if (!run) return {};
    const planned = report.workload &&
      report.predicted && { workload: report.workload, tokensPerSecond: report.predicted.tokensPerSecond };
    return {
      predicted: { ...run, ...(planned && { planned }) },
      ...(timings && {
        corrections: {
          applied: applied ?? {},
          uncorrectedTokensPerSecond: (applied ? by(undefined) : run)?.tokensPerSecond ?? 0,
          ...timings.end(),
          learned: learning !== undefined,
        },
      }),
    };
  }

  private get cache(): CachePages {
    const {
      cache: { pages, pageTokens, disk, groups },
      gpu,
      grid,
    } = this.opened;
    return {
      pages,
      gpuPages: gpu?.options.pages,
      rules: {
        pageTokens,
        gpuShare: gpu?.cacheShare,
        diskShare: disk.share,
        mostDiskPages: disk.mostPerRow,
        ...groupRules(groups, grid),
      },
    };
  }

  /**
   * How many rows may be under way together for another workload, as things lie now, and keep the bound: as few as
   * there can be where no block does any more.
   */
  private rowsFor(request: PlanRequest): number {
    const { grid, settings, reserved } = this.opened;
    const { compressWeights, compressCache } = settings.numerics;
    const { rowsPerSlot, schedule, tokensPerSquare } = settings.block;
    const { hardware, allow } = request;
    try {
      const best = chooseBlock(
        {
          ...request,
          hardware: { ...hardware, memory: { ...hardware.memory, cpuBytes: reserved.hostBytes } },
          allow: {
            ...allow,
            schedules: [schedule],
            batches: grid.slots,
            mostBatchSize: grid.rowsPerSlot,
            tokensPerSquare,
            compressWeights: [compressWeights],
            compressCache: [compressCache],
          },
        },
        this.placement,
      );
      // Rows that do not fit beside each other any more come in one by one, as memory comes free.
      return grid.slots * (best?.policy.batchSize ?? rowsPerSlot);
    } catch (error) {
      if (!(error instanceof UsageError)) throw error;
      return grid.slots;
    }
  }
}
