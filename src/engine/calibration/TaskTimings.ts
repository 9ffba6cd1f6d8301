import { hopsOf, kindOf, type Task, type TaskEvent } from '../grid/Task.js';
import type { BlockSetting } from '../../plan/CostModel.js';
import type { WorkDone } from './learn.js';
import { computeKind, readKind, type Corrections, type Phase } from '../../plan/corrections.js';
import { hasGpu } from '../../plan/HardwareProfile.js';
import { slotsOf } from '../../plan/Policy.js';
import type { PlacementShares } from '../../plan/Placement.js';
import { matmulKind } from '../../plan/model/matmulKinds.js';
import { BETWEEN_SQUARES, hostAttends, NOT_OVERLAPPED, pagesCome, pagesGoFirst } from '../../plan/model/queues.js';
import { sizesOf } from '../../plan/model/sizes.js';
import { taskSeconds } from '../../plan/model/taskSeconds.js';
import { shareOfExpertsRead } from '../../plan/model/chosenExperts.js';
import type { ModelShape } from '../../plan/ModelShape.js';
import { batchTokens, tokensByPhase, type Batch } from '../grid/Square.js';
import { CpuContention } from './CpuContention.js';

/**
 * A wait of more than so many times what the model expects is for rows, or for whoever takes results: not the
 * machine's.
 */
const MOST_WAIT = 64;

/**
 * The one of a disk and a link that work together that takes so many times as long as the other takes all of the time.
 */
const CLEARLY = 2;

function isDisk({ queue }: Task): boolean {
  return queue === 'disk-read' || queue === 'disk-write';
}

function isPages({ name }: Task): boolean {
  return kindOf(name).moves === 'cache';
}

/** The facts that tasks of one batch have in common in all layers. */
interface BatchWork {
  readonly promptShare: number;
  readonly prefill: string;
  readonly decode: string;
  /** Seconds of the model, by part. */
  readonly seconds: Map<string, number>;
}

/**
 * Sets every task of a run beside what the machine's profile says of that very task, by kind of work: what was learned
 * before is left out of it, so that corrections do not correct themselves.
 *
 * With a GPU `compute` is what the GPU computes, and the link is learned of too. Four things are left out there.
 * Attention where the processor attends, too, tells of neither alone. Nor does attention in whose middle pages come,
 * for a buffer does not hold those of all rows. Weights give way to pages: where these come the link does not tell how
 * fast it is, nor, where they are read, does the disk's reading of weights. And where disk and link are one task, what
 * took the time is known only if the profile has one of them take twice as long as the other. How queues wait for each
 * other is nothing that the model corrects with a GPU.
 */
export class TaskTimings {
  private readonly done = new Map<string, { seconds: number; profileSeconds: number }>();
  private readonly batches = new WeakMap<Batch, BatchWork>();
  private readonly secondsOf: (task: Task) => number;
  private readonly weights: string;
  private readonly readKind: string;
  private readonly betweenSeconds: number;
  private readonly memoryBytesPerSecond: number;
  private readonly compute = { seconds: 0, profileSeconds: 0, end: NaN };
  private readonly waits = { seconds: 0, profileSeconds: 0 };
  private readonly disk = { read: 0, write: 0, bytes: 0 };
  private readonly span = { start: Infinity, end: -Infinity };
  private readonly machine: Pick<CpuContention, 'undisturbed'>;
  private readonly onGpu: boolean;
  private readonly hostAttends: boolean;
  private readonly pagesCome: boolean;
  private readonly pagesGoFirst: boolean;
  private readonly chosen: { readonly experts: NonNullable<ModelShape['experts']>; readonly slots: number } | undefined;
  /** Another run shares the queues: what lies between this one's tasks is the other one's. */
  private shared = false;

  /**
   * @param setting the machine as it is for this run, its profile uncorrected
   * @param applied what the run is predicted with
   * @param machine tells how much of the machine the run had; replaced in tests
   */
  constructor(
    { hardware: { corrections: _, ...hardware }, ...setting }: BlockSetting,
    placement: PlacementShares,
    readonly applied: Corrections | undefined,
    machine?: Pick<CpuContention, 'undisturbed'>,
  ) {
    const plain = { ...setting, hardware };
    this.machine = machine ?? new CpuContention(setting.block.threads ?? hardware.cpu.threads);
    this.secondsOf = taskSeconds(plain, placement);
    this.onGpu = hasGpu(hardware);
    this.hostAttends = hostAttends(plain, placement);
    this.pagesCome = pagesCome(plain, placement);
    this.pagesGoFirst = pagesGoFirst(plain, placement);
    this.readKind = readKind(sizesOf(plain).layerWeightBytes);
    this.weights = matmulKind(plain.shape, plain.block.compressWeights);
    if (plain.shape.experts && !this.onGpu && placement.weights.disk > 0)
      this.chosen = { experts: plain.shape.experts, slots: slotsOf(plain.block) };
    this.betweenSeconds = BETWEEN_SQUARES * hardware.cpu.taskSeconds;
    this.memoryBytesPerSecond = hardware.cpu.memoryBytesPerSecond;
  }

  /** Another run is under way beside this one. */
  share(): void {
    this.shared = true;
  }

  completed(event: TaskEvent): void {
    const { task, timing, error } = event;
    if (!timing || error || this.waitsForExperts(task)) return;
    const seconds = timing.end - timing.start;
    this.span.start = Math.min(this.span.start, timing.start);
    this.span.end = Math.max(this.span.end, timing.end);
    if (task.name === 'compute') this.computed(event, timing.start, seconds);
    else if (task.hops) this.movedTogether(hopsOf(task), seconds);
    else this.moved(task, seconds);
  }

  /**
   * Tells whether a task that computes reads experts itself, and the one that loads its layer fewer bytes than it
   * counts: neither tells how fast the machine is.
   */
  private waitsForExperts({ name, batch }: Task): boolean {
    if (!this.chosen || (name !== 'compute' && name !== 'load_weight')) return false;
    return shareOfExpertsRead(this.chosen.experts, this.chosen.slots * batchTokens(batch)) < 1;
  }

  /** Gives the work that was done so far, by kind, in seconds; and how much of the machine it had. */
  end(): { readonly work: WorkDone; readonly undisturbed: number } {
    const { compute, disk, waits, span } = this;
    const work: Record<string, { seconds: number; profileSeconds: number }> = {};
    // While data come from the disk, computing shares the memory with them: the model counts that time apart, in a run
    // it is part of the tasks.
    const contended =
      !this.onGpu && compute.profileSeconds > 0
        ? 1 + disk.bytes / this.memoryBytesPerSecond / compute.profileSeconds
        : 1;
    for (const [kind, { seconds, profileSeconds }] of this.done) {
      work[kind] = {
        seconds,
        profileSeconds: kind.startsWith('compute.') ? profileSeconds * contended : profileSeconds,
      };
    }
    const busy = [compute.seconds, disk.read, disk.write];
    const sum = busy.reduce((total, each) => total + each, 0);
    const wall = span.end - span.start;
    if (!this.shared && !this.onGpu) {
      if (disk.bytes === 0) work['between'] = waits;
      // Where one queue is much busier than the others it hides them, and where nothing was busy the run waited for its
      // rows: neither tells how well they overlap.
      else if (Math.max(...busy) <= NOT_OVERLAPPED * sum && wall <= sum)
        work['overlap'] = { seconds: wall, profileSeconds: NOT_OVERLAPPED * sum };
    }
    return { work, undisturbed: this.machine.undisturbed() };
  }

  private moved(task: Task, seconds: number): void {
    if (isDisk(task)) {
      const way = task.queue === 'disk-read' ? 'read' : 'write';
      this.disk[way] += seconds;
      this.disk.bytes += task.bytes;
    }
    const kind = this.kindOf(task);
    if (kind !== undefined) this.add(kind, seconds, this.secondsOf(task));
  }

  /** Pieces are on one link while others are on another, so the slowest of them took the time. */
  private movedTogether(hops: readonly Task[], seconds: number): void {
    const [slowest, next] = hops.map((hop) => ({ hop, of: this.secondsOf(hop) })).sort((a, b) => b.of - a.of);
    if (slowest && (!next || slowest.of >= CLEARLY * next.of)) this.moved(slowest.hop, seconds);
  }

  private kindOf(task: Task): string | undefined {
    if (task.queue === 'disk-read' && isPages(task)) return 'disk.readPages';
    if (task.queue === 'disk-write') return isPages(task) ? 'disk.writePages' : 'disk.write';
    if (task.queue === 'disk-read') return this.pagesGoFirst ? undefined : this.readKind;
    // Weights give way to pages, which share the link with what does not.
    if (this.pagesCome) return undefined;
    return task.queue === 'host-to-device' ? 'link.up' : task.queue === 'device-to-host' ? 'link.down' : undefined;
  }

  private computed({ task, movesPages = false }: TaskEvent, start: number, seconds: number): void {
    const { compute, waits, betweenSeconds } = this;
    const { promptShare, prefill, decode, seconds: known } = this.workOf(task.batch);
    const part = task.part ?? '';
    if (movesPages || (part === 'attend' && this.hostAttends)) return;
    let model = known.get(part);
    if (model === undefined) known.set(part, (model = this.secondsOf(task)));
    if (promptShare > 0) this.add(prefill, seconds * promptShare, model * promptShare);
    if (promptShare < 1) this.add(decode, seconds * (1 - promptShare), model * (1 - promptShare));
    compute.seconds += seconds;
    compute.profileSeconds += model;
    if (part === 'project' || part === 'layer') waits.profileSeconds += betweenSeconds;
    if (start > compute.end) waits.seconds += Math.min(start - compute.end, MOST_WAIT * betweenSeconds);
    compute.end = start + seconds;
  }

  private workOf(batch: Batch): BatchWork {
    let work = this.batches.get(batch);
    if (!work) {
      const { prompt, decode } = tokensByPhase(batch);
      const tokens = prompt + decode;
      const kind = (phase: Phase): string => computeKind(phase, this.weights, tokens);
      work = {
        promptShare: 1 - decode / Math.max(1, tokens),
        prefill: kind('prefill'),
        decode: kind('decode'),
        seconds: new Map(),
      };
      this.batches.set(batch, work);
    }
    return work;
  }

  private add(kind: string, seconds: number, profileSeconds: number): void {
    let sum = this.done.get(kind);
    if (!sum) this.done.set(kind, (sum = { seconds: 0, profileSeconds: 0 }));
    sum.seconds += seconds;
    sum.profileSeconds += profileSeconds;
  }
}
