import type { RunStats } from '../RunStats.js';
import type { Placement } from './memory/movement.js';
import type { SettledOptions } from './openRuntime.js';
import { chooseBlock } from './policy/chooseBlock.js';
import type { PlanRequest } from './policy/PlanRequest.js';
import { predictRun, type RunTotals } from './predictRun.js';
import { WorkloadDrift } from './WorkloadDrift.js';

/** A run that has been. */
export interface SeenRun {
  readonly block: Parameters<typeof predictRun>[1];
  readonly schedule: string;
  readonly totals: RunTotals;
  /** It went through stages that are not the default ones: of them nothing is known. */
  readonly ownStages: boolean;
}

/** What an open engine expects of its runs: how long they take, and how many rows should share a pass where rows turn out otherwise than planned. */
export class Outlook {
  /** Undefined where how many rows share a pass was not planned, or is what the caller said. */
  readonly drift: WorkloadDrift | undefined;

  /** Most rows that may be under way together, where that is not all that there is a place for. */
  readonly mostRows: (() => number) | undefined;

  constructor(
    private readonly settled: SettledOptions,
    private readonly placement: Placement,
  ) {
    const { planned, slots, rowsPerSlot } = settled;
    const { request, plan } = planned;
    if (plan.origin === 'auto' && request && request.allow?.batchSize === undefined) {
      const drift = new WorkloadDrift(request.workload, slots * rowsPerSlot, (workload) => this.rowsFor({ ...request, workload }));
      this.drift = drift;
      this.mostRows = () => drift.rows;
    }
  }

  /** What a run's statistics say beside what was measured. */
  of(run: SeenRun): Pick<RunStats, 'predicted' | 'plan'> {
    const { origin, why, machineSpeed } = this.settled.planned.plan;
    return { ...this.predicted(run), plan: { origin, ...(why !== undefined && { why }), ...(machineSpeed && { machineSpeed }), replans: this.drift?.replans ?? [] } };
  }

  private predicted({ block, schedule, totals, ownStages }: SeenRun): Pick<RunStats, 'predicted'> {
    const { request, plan } = this.settled.planned;
    const batchSize = this.drift ? Math.ceil(this.drift.rows / block.batches) : block.batchSize;
    const run = request && !ownStages ? predictRun(request, { ...block, batchSize }, schedule, totals) : undefined;
    if (!run) return {};
    const planned = plan.workload && plan.predicted && { workload: plan.workload, tokensPerSecond: plan.predicted.tokensPerSecond };
    return { predicted: { ...run, ...(planned && { planned }) } };
  }

  /** How many rows should be under way together for another workload, as things lie now. */
  private rowsFor(request: PlanRequest): number {
    const { grid, rowsPerSlot, reservedBytes, compressWeights, compressCache, schedule, tokensPerSquare } = this.settled;
    const { hardware, allow } = request;
    const best = chooseBlock(
      {
        ...request,
        hardware: { ...hardware, memory: { ...hardware.memory, cpuBytes: reservedBytes } },
        allow: { ...allow, schedules: [schedule], batches: grid.slots, mostBatchSize: grid.rowsPerSlot, tokensPerSquare, compressWeights: [compressWeights], compressCache: [compressCache] },
      },
      this.placement,
    );
    // Rows that do not fit beside each other any more come in one by one, as memory comes free.
    return grid.slots * (best?.policy.batchSize ?? rowsPerSlot);
  }
}
