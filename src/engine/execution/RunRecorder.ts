import { isThenable } from '../../arguments/isThenable.js';
import type { RowDelta, RowResult } from '../../Row.js';
import type { Progress, RunStats, Sharing, TraceEvent } from '../../RunStats.js';
import type { spendingMeter } from '../../plan/spending.js';
import type { RunTotals } from '../calibration/predictRun.js';
import type { JudgedRow, KnownStretch } from '../schedules/PathChecker.js';
import { tokensByPhase, type Batch, type RowId } from '../grid/Square.js';
import { QueueWork } from './QueueWork.js';
import { residentPeakBytes } from './residentPeakBytes.js';
import { kindOf, QUEUE_NAMES, workOf, type Moved, type QueueName, type Task, type TaskEvent } from '../grid/Task.js';

/** Bytes of each tier. */
export type MemoryUse = Readonly<
  Record<string, { readonly capacityBytes: number; readonly usedBytes: number; readonly peakBytes: number }>
>;

/** Where the numbers come from that the recorder cannot count itself. */
export interface RecorderSetup {
  readonly model: string;
  readonly policy: Readonly<Record<string, unknown>>;
  readonly loadSeconds: number;
  /** The token prompts begin with, once. */
  readonly beginToken?: number | undefined;
  /** As in `RunStats`. */
  readonly unpinnedBytes?: number | undefined;
  /** Tells what the run has taken of money and energy, after so many seconds and new tokens. */
  readonly spending?: ReturnType<typeof spendingMeter> | undefined;
  /** Bytes in use and capacity of each tier, now. */
  readonly memory: () => MemoryUse;
  /** Tells what was expected of a run with these rows. @param shared as in `RunRecorder` */
  readonly forecast?:
    ((totals: RunTotals, shared: boolean) => Pick<RunStats, 'predicted' | 'plan' | 'corrections'>) | undefined;
  /** Told how long rows are: prompts when they come in, answers when they end. */
  readonly lengths?: { prompt(tokens: number, shared?: number): void; ended(newTokens: number): void } | undefined;
  /** Sets every task beside what was expected of it. */
  readonly timings?: { completed(event: TaskEvent): void } | undefined;
  /** Told how long a batch has been computed for. */
  readonly computed?: ((batch: Batch, seconds: number) => void) | undefined;
  readonly onProgress?: ((progress: Progress) => void) | undefined;
  readonly onStats?: ((stats: RunStats) => void) | undefined;
  readonly onTrace?: ((event: TraceEvent) => void) | undefined;
  readonly onDelta?: ((delta: RowDelta) => void) | undefined;
}

/** The work of the device, and the time it took of the JavaScript thread. */
type DeviceWork = Pick<RunStats, 'queues' | 'bytes'> & { readonly ownSeconds: number };

const PROGRESS_SECONDS = 0.1;
/** The rate in a progress report is that of this many seconds. */
const RATE_SECONDS = 5;

/**
 * Counts what a run does: statistics, progress, trace. Cheap enough to be always on. What the caller's callbacks throw
 * is for the run to report: see `onError`.
 */
export class RunRecorder {
  /** The first error thrown by a callback. */
  failure: { readonly error: unknown } | undefined;
  /** True where other calls were in the run: what this one took is not what it would take alone. */
  shared = false;
  private told: ((error: unknown) => void) | undefined;
  /** The promises of asynchronous callbacks that have not settled yet. */
  private readonly unheard = new Set<Promise<void>>();

  private readonly startedAt = performance.now() / 1000;
  private readonly queues = new QueueWork();
  private readonly bytes: Record<Moved, Record<string, number>> = { weights: {}, cache: {}, activations: {} };
  private prefillSeconds = 0;
  /** Up to when computing has been counted. */
  private computedUntil = -Infinity;
  private decodeSeconds = 0;
  private promptTokens = 0;
  /** Prompt tokens that rows took from others, less those that were computed for nobody in particular. */
  private promptTokensSaved = 0;
  /** Tokens of the latter kind that no row has made up for: they count against the rows that share them. */
  private prefixTokens = 0;
  private rowsEqual = 0;
  private rowsReused = 0;
  /** Rows that were done, but for those that had another's answer. */
  private computed = 0;
  private generatedTokens = 0;
  private done = 0;
  private failed = 0;
  private cut = 0;
  private truncatedRows = 0;
  private begunTwice = 0;
  private active = 0;
  private ownSeconds = 0;
  private depth = 0;
  private lastProgress = 0;
  /** The latest end of a task: the time of what is reckoned between tasks, on the device's clock. */
  private lastEnd = 0;
  private readonly rates: { at: number; tokens: number }[] = [];
  private readonly shares = new WeakMap<Batch, ReturnType<typeof tokensByPhase>>();
  private readonly tracedBytes = new Map<string, number>();
  /** Queues that have a track in the trace. */
  private readonly tracks = new Set<QueueName>();

  /** The work that the run had done when the call joined it. */
  private readonly before: DeviceWork | undefined;

  /** @param run whose device works for others, too: of a call that has joined it, from now on */
  constructor(
    private readonly setup: RecorderSetup,
    private readonly run?: RunRecorder,
  ) {
    this.before = run?.work;
    this.tell<TraceEvent>(setup.onTrace, () => ({
      name: 'process_name',
      ph: 'M',
      ts: 0,
      pid: 1,
      tid: 0,
      args: { name: 'spillway' },
    }));
  }

  /** Calls back with what a callback of the caller's throws first; at once, if one has. */
  onError(callback: (error: unknown) => void): void {
    this.told = callback;
    if (this.failure) callback(this.failure.error);
  }

  /** Runs work of the JavaScript thread and counts its time as orchestration. */
  timed<T>(work: () => T): T {
    if (this.depth > 0) return work();
    this.depth++;
    const start = performance.now();
    try {
      return work();
    } finally {
      this.depth--;
      this.ownSeconds += (performance.now() - start) / 1000;
    }
  }

  completed(event: TaskEvent): void {
    const { task, timing } = event;
    if (!timing || event.error) return;
    const work = workOf(event, timing);
    for (const [hop, time] of work) this.moved(hop, time);
    if (task.name === 'compute') {
      const share = this.shareOf(task.batch);
      // Where attention has a queue of its own, what two of them do at once counts once.
      const more = Math.max(0, timing.end - Math.max(timing.start, this.computedUntil));
      this.computedUntil = Math.max(this.computedUntil, timing.end);
      this.spent(more, share, share.prompt + share.decode);
      this.setup.computed?.(task.batch, more);
    }
    this.setup.timings?.completed(event);
    for (const [hop, time] of work) this.trace(hop, time);
  }

  /** So long a batch of so many tokens was computed, of which these are the caller's. */
  spent(seconds: number, { prompt, decode }: ReturnType<typeof tokensByPhase>, tokens: number): void {
    this.prefillSeconds += (seconds * prompt) / Math.max(1, tokens);
    this.decodeSeconds += (seconds * decode) / Math.max(1, tokens);
  }

  /** The work that the device has done for whoever shares the run. */
  private get work(): DeviceWork {
    return {
      queues: this.queues.sums,
      bytes: structuredClone(this.bytes),
      ownSeconds: this.ownSeconds,
    };
  }

  /** The same since the call has joined, where it has joined a run. */
  private get workDone(): DeviceWork {
    const { run, before } = this;
    if (!run || !before) return this.work;
    const { queues, bytes, ownSeconds } = run.work;
    return {
      queues: increase(queues, before.queues, (now, { busySeconds, tasks, bytes: moved }) => ({
        busySeconds: now.busySeconds - busySeconds,
        tasks: now.tasks - tasks,
        bytes: now.bytes - moved,
      })),
      bytes: {
        weights: increase(bytes.weights, before.bytes.weights, (now, then) => now - then),
        cache: increase(bytes.cache, before.bytes.cache, (now, then) => now - then),
        activations: increase(bytes.activations, before.bytes.activations, (now, then) => now - then),
      },
      ownSeconds: this.ownSeconds + ownSeconds - before.ownSeconds,
    };
  }

  /** A link, or a processor, was busy with a task. */
  private moved(hop: Task, timing: NonNullable<TaskEvent['timing']>): void {
    this.queues.add(hop, timing);
    const { name, from, to, bytes } = hop;
    const { moves } = kindOf(name);
    if (!moves) return;
    const links = this.bytes[moves];
    const link = `${from ?? '?'}→${to ?? '?'}`;
    links[link] = (links[link] ?? 0) + bytes;
  }

  /**
   * A row was admitted, or a beginning of rows to come; its memory has been taken.
   * @param row as it will be judged @param tokens of its prompt that will be computed
   * @param counted tokens, from the first, of a row that it goes on after
   */
  admitted(row: JudgedRow, tokens: number, counted = 0): void {
    const { prefix = false, shared = [], promptTokens } = row;
    if (prefix) this.prefixTokens += tokens;
    else if (counted > 0) this.promptTokens += promptTokens - counted;
    else {
      const taken = shared.at(-1)?.end ?? 0;
      const made = Math.min(taken, this.prefixTokens);
      this.prefixTokens -= made;
      this.promptTokens += promptTokens;
      this.promptTokensSaved += taken - made;
      this.setup.lengths?.prompt(promptTokens, taken);
    }
    this.traceRow(row);
    this.traceMemory();
  }

  /** Tokens of a row became known together. */
  known(row: RowId, { behind, end }: KnownStretch): void {
    this.mark('i', 'known', { row, behind, end });
  }

  /** A token was added to a row. */
  token(): void {
    this.generatedTokens++;
  }

  /** A row ended, with so many new tokens; `cut`: by its limit of them. */
  row(failed: boolean, newTokens = 0, cut = false): void {
    if (failed) this.failed++;
    else {
      this.done++;
      if (cut) this.cut++;
      this.computed++;
      this.setup.lengths?.ended(newTokens);
    }
    this.tellProgress();
  }

  /** Tells the caller what answers grow by, where that is asked for. */
  get deltas(): ((delta: RowDelta) => void) | undefined {
    const { onDelta } = this.setup;
    if (!onDelta) return undefined;
    return (delta) => {
      this.tell(onDelta, () => delta);
    };
  }

  /** A row came in. @param truncated tokens that were cut of its prompt, if any were */
  prompt([first, second]: readonly number[], truncated?: number): void {
    if (truncated !== undefined) this.truncatedRows++;
    if (first !== undefined && first === second && first === this.setup.beginToken) this.begunTwice++;
  }

  /** A row ended with the answer of an equal one. */
  equal({ error, finishReason }: Partial<Pick<RowResult, 'error' | 'finishReason'>>): void {
    this.rowsEqual++;
    if (error) this.failed++;
    else this.done++;
    if (!error && finishReason === 'length') this.cut++;
    this.tellProgress();
  }

  private get sharing(): Sharing {
    const { promptTokensSaved, rowsEqual, rowsReused } = this;
    return { promptTokensSaved, rowsEqual, rowsReused };
  }

  /** A row ended with an answer of an earlier run. */
  reused({ finishReason }: Partial<Pick<RowResult, 'error' | 'finishReason'>>): void {
    this.rowsReused++;
    this.done++;
    if (finishReason === 'length') this.cut++;
    this.tellProgress();
  }

  /** How many rows are being generated now. */
  rows(active: number): void {
    this.active = active;
    this.traceMemory();
    this.tellProgress();
  }

  progress(): Progress {
    const now = performance.now() / 1000;
    this.rates.push({ at: now, tokens: this.generatedTokens });
    while ((this.rates[1]?.at ?? now) < now - RATE_SECONDS) this.rates.shift();
    const from = this.rates.length > 1 ? this.rates[0] : { at: this.startedAt, tokens: 0 };
    const span = now - (from?.at ?? now);
    return {
      sharing: this.sharing,
      rowsDone: this.done,
      rowsFailed: this.failed,
      rowsActive: this.active,
      promptTokens: this.promptTokens,
      generatedTokens: this.generatedTokens,
      seconds: now - this.startedAt,
      tokensPerSecond: span > 0 ? (this.generatedTokens - (from?.tokens ?? 0)) / span : 0,
    };
  }

  /** The run is over: the last that its caller is told. */
  end(): void {
    this.tell(this.setup.onProgress, () => this.progress());
    this.tell(this.setup.onStats, () => this.stats());
  }

  /** Resolves when callbacks that are asynchronous have come to their ends. */
  async heard(): Promise<void> {
    while (this.unheard.size > 0) await Promise.all(this.unheard);
  }

  stats(): RunStats {
    const wall = performance.now() / 1000 - this.startedAt;
    const rate = (tokens: number): number => (wall > 0 ? tokens / wall : 0);
    const memory = this.setup.memory();
    const { queues, bytes, ownSeconds } = this.workDone;
    const { done, failed, cut, truncatedRows: truncated, begunTwice } = this;
    return {
      model: this.setup.model,
      policy: this.setup.policy,
      rows: { done, failed, cut, truncated, begunTwice },
      tokens: { prompt: this.promptTokens, generated: this.generatedTokens },
      sharing: this.sharing,
      seconds: {
        wall: wall + this.setup.loadSeconds,
        load: this.setup.loadSeconds,
        prefill: this.prefillSeconds,
        decode: this.decodeSeconds,
      },
      tokensPerSecond: { generated: rate(this.generatedTokens), prompt: rate(this.promptTokens) },
      bytes,
      queues,
      memory: Object.fromEntries(
        Object.entries(memory).map(([tier, { capacityBytes, peakBytes }]) => [tier, { capacityBytes, peakBytes }]),
      ),
      ...(this.setup.unpinnedBytes !== undefined && { unpinnedBytes: this.setup.unpinnedBytes }),
      residentPeakBytes: residentPeakBytes(),
      ...this.setup.forecast?.(
        {
          rows: this.computed,
          promptTokens: this.promptTokens,
          promptTokensSaved: this.promptTokensSaved,
          newTokens: this.generatedTokens,
        },
        this.shared,
      ),
      ...this.setup.spending?.(wall, this.generatedTokens),
      orchestration: { seconds: ownSeconds, fractionOfWall: wall > 0 ? ownSeconds / wall : 0 },
    };
  }

  /** How a batch's tokens divide into prompt and decode: computed once for all layers. */
  private shareOf(batch: Batch): ReturnType<typeof tokensByPhase> {
    let share = this.shares.get(batch);
    if (!share) this.shares.set(batch, (share = tokensByPhase(batch)));
    return share;
  }

  /**
   * Not too often. Whatever changes what it says asks for it: rows that need no computing may be all that there is for
   * a long time.
   */
  private tellProgress(): void {
    const now = performance.now() / 1000;
    if (!this.setup.onProgress || now - this.lastProgress < PROGRESS_SECONDS) return;
    this.lastProgress = now;
    this.tell(this.setup.onProgress, () => this.progress());
  }

  /**
   * Calls a callback of the caller's, if there is one; nothing that counts or computes is cut short by what it throws.
   */
  private tell<T>(callback: ((value: T) => unknown) | undefined, value: () => T): void {
    try {
      const later = callback?.(value());
      if (!isThenable(later)) return;
      const heard = Promise.resolve(later).then(
        () => void this.unheard.delete(heard),
        (error: unknown) => {
          this.unheard.delete(heard);
          this.fail(error);
        },
      );
      this.unheard.add(heard);
    } catch (error) {
      this.fail(error);
    }
  }

  private fail(error: unknown): void {
    if (this.failure) return;
    this.failure = { error };
    this.told?.(error);
  }

  private trace(task: Task, timing: NonNullable<TaskEvent['timing']>): void {
    const { onTrace } = this.setup;
    if (!onTrace) return;
    const { batch, layer, part, bytes, from, to } = task;
    const { pass, slot, rows } = batch;
    this.traceTrack(task.queue);
    this.tell<TraceEvent>(onTrace, () => ({
      name: `${task.name} L${layer}${part === undefined ? '' : ` ${part}`}`,
      ph: 'X',
      // Of whole nanoseconds: a task that begins when another one ends does so in the trace, too.
      ts: Math.round(timing.start * 1e9) / 1e3,
      dur: (Math.round(timing.end * 1e9) - Math.round(timing.start * 1e9)) / 1e3,
      pid: 1,
      tid: QUEUE_NAMES.indexOf(task.queue),
      args: {
        pass,
        layer,
        slot,
        ...(part && { part }),
        rows: rows.map((range) => [range.row, range.firstPosition, range.tokens]),
        bytes,
        from,
        to,
      },
    }));
    this.lastEnd = Math.max(this.lastEnd, timing.end);
    this.traceMemory();
  }

  /** Names a queue's track when the first task of it comes: queues that do nothing have none. */
  private traceTrack(name: QueueName): void {
    if (this.tracks.has(name)) return;
    this.tracks.add(name);
    const tid = QUEUE_NAMES.indexOf(name);
    this.tell<TraceEvent>(this.setup.onTrace, () => ({
      name: 'thread_name',
      ph: 'M',
      ts: 0,
      pid: 1,
      tid,
      args: { name },
    }));
  }

  private traceRow({ row, promptTokens, newTokens, prefix = false, shared = [] }: JudgedRow): void {
    const args = {
      row,
      promptTokens,
      newTokens,
      ...(prefix && { prefix }),
      ...(shared.length > 0 && { shared: shared.map((stretch) => [stretch.row, stretch.end]) }),
    };
    this.mark('i', 'admit', args);
    this.mark('b', 'row', { row, promptTokens, newTokens }, { cat: 'row', id: row });
  }

  /** A row, or a beginning of rows to come, has been computed so far, and no further. */
  left(row: RowId, positions: number): void {
    this.mark('e', 'row', { row, positions }, { cat: 'row', id: row });
  }

  /** Traces what is no task, at the end of the last task. */
  private mark(
    ph: 'i' | 'b' | 'e',
    name: string,
    args: TraceEvent['args'],
    track: Pick<TraceEvent, 'cat' | 'id'> = {},
  ): void {
    const ts = this.lastEnd * 1e6;
    this.tell<TraceEvent>(this.setup.onTrace, () => ({ name, ph, ts, pid: 1, tid: 0, args, ...track }));
  }

  /**
   * Traces what is in use of each tier, where that has changed: at the end of tasks, and whenever memory was taken or
   * given back.
   */
  private traceMemory(): void {
    const { onTrace } = this.setup;
    if (!onTrace) return;
    for (const [tier, { usedBytes }] of Object.entries(this.setup.memory())) {
      if (this.tracedBytes.get(tier) === usedBytes) continue;
      this.tracedBytes.set(tier, usedBytes);
      this.tell<TraceEvent>(onTrace, () => ({
        name: `${tier} bytes`,
        ph: 'C',
        ts: this.lastEnd * 1e6,
        pid: 1,
        tid: 0,
        args: { used: usedBytes },
      }));
    }
  }
}

/** Says how much more there is than there was before, by name. */
function increase<Value>(
  now: Readonly<Record<string, Value>>,
  before: Readonly<Record<string, Value>>,
  less: (now: Value, before: Value) => Value,
): Record<string, Value> {
  const more: Record<string, Value> = {};
  for (const [name, value] of Object.entries(now)) {
    const then = before[name];
    more[name] = then === undefined ? value : less(value, then);
  }
  return more;
}
