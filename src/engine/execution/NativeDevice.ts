import { Subject } from 'rxjs';
import { BATCH_STRIDE, COMPUTE_PARTS, HEAD_MODES, type NativeCompletions, type NativeHeadResult, type NativeRuntime } from '../../bindings/Addon.js';
import { nativeCall } from '../../bindings/nativeCall.js';
import { TaskError } from '../../errors/TaskError.js';
import type { RowId, RowRange } from '../schedules/Square.js';
import type { Completion, Device, DeviceRow } from './Device.js';
import { PendingEvent } from './PendingEvent.js';
import { WeightRing } from './WeightRing.js';
import { describeTask, type HeadOutput, type QueueName, type SampledToken, type Task, type TaskEvent, type Tier } from './Task.js';

interface DeviceRunState {
  /** Activation buffer of each slot. */
  readonly activations: readonly number[];
  readonly rows: Map<number, NativeRow>;
  /** The batch of each `rows` array that has tasks under way, or may get more. */
  readonly batches: Map<readonly RowRange[], NativeBatch>;
}

interface NativeRow {
  readonly id: number;
  readonly handle: number;
  readonly pages: readonly number[];
  /** Batches that name the row; it is freed when it is closed and none is left. */
  batches: number;
  closed: boolean;
}

interface NativeBatch {
  readonly handle: number;
  readonly slot: number;
  readonly rows: readonly NativeRow[];
  /** Tasks that have not completed. */
  outstanding: number;
}

/** The addon as a device: tasks become calls of the native runtime, its completions become events. Shared by all runs of an engine. */
export class NativeDevice implements Device {
  readonly name = 'native';
  readonly queues: readonly QueueName[] = ['cpu-compute', 'disk-read'];
  readonly computeTier: Tier = 'cpu';
  readonly computeQueue: QueueName = 'cpu-compute';
  readonly completed$ = new Subject<readonly Completion[]>();

  private readonly runs = new Map<number, DeviceRunState>();
  private readonly pending = new Map<number, { readonly event: PendingEvent; readonly batch?: NativeBatch }>();
  private readonly ring: WeightRing;

  /** @param weightBuffers how many layers' streamed weights the runtime has room for; 0 where nothing streams */
  constructor(
    private readonly runtime: NativeRuntime,
    weightBuffers: number,
  ) {
    this.ring = new WeightRing(weightBuffers);
    runtime.onCompleted((completions) => this.complete(completions));
  }

  submit(task: Task, after: readonly TaskEvent[]): TaskEvent {
    if (task.name === 'load_weight') return this.loadWeight(task, after);
    if (task.name !== 'compute' || task.part === undefined) {
      throw new TaskError(describeTask(task), 'this device keeps cache and activations in memory and has nothing to move');
    }
    const { part } = task;
    const state = this.state(task.run);
    const batch = state.batches.get(task.rows) ?? this.openBatch(state, task);
    const activations = state.activations[task.slot];
    if (activations === undefined) throw new TaskError(describeTask(task), `the run has ${state.activations.length} slots`);
    const weights = this.weightsOf(task);
    const waitsFor = pendingIds(weights?.load ? [...after, weights.load] : after);
    const id = nativeCall(() => this.runtime.submitCompute(COMPUTE_PARTS[part], task.layer, batch.handle, activations, waitsFor, weights?.buffer ?? -1));
    const event = new PendingEvent(id, task);
    if (weights) this.ring.readBy(weights.buffer, event);
    batch.outstanding++;
    this.pending.set(id, { event, batch });
    return event;
  }

  openRun(run: number, { slots, tokensPerSquare }: { slots: number; tokensPerSquare: number }): void {
    const activations: number[] = [];
    try {
      for (let slot = 0; slot < slots; slot++) activations.push(nativeCall(() => this.runtime.createActivations(tokensPerSquare)));
    } catch (error) {
      for (const buffer of activations) this.runtime.freeActivations(buffer);
      throw error;
    }
    this.runs.set(run, { activations, rows: new Map(), batches: new Map() });
  }

  closeRun(run: number): void {
    const state = this.state(run);
    for (const [rows, batch] of state.batches) this.closeBatch(state, rows, batch);
    for (const row of state.rows.values()) this.closeRow(run, row.id);
    for (const buffer of state.activations) nativeCall(() => this.runtime.freeActivations(buffer));
    this.runs.delete(run);
  }

  openRow(run: number, row: number, sequence: DeviceRow, pages: readonly number[]): void {
    const handle = nativeCall(() => this.runtime.createRow({ ...sequence, tokens: Int32Array.from(sequence.tokens) }));
    this.state(run).rows.set(row, { id: row, handle, pages, batches: 0, closed: false });
  }

  closeRow(run: number, row: number): void {
    const state = this.state(run);
    const native = state.rows.get(row);
    if (!native) return;
    native.closed = true;
    this.freeIfUnused(state, native);
  }

  /** One run's cancellation must not touch another's, so what has been submitted runs to its end: a window of squares, no more. */
  cancelRun(): void {
    // Nothing to do: the run stops submitting.
  }

  async close(): Promise<void> {
    await this.runtime.close();
    this.completed$.complete();
  }

  private state(run: number): DeviceRunState {
    const state = this.runs.get(run);
    if (!state) throw new RangeError(`run ${run} is not open`);
    return state;
  }

  private loadWeight(task: Task, after: readonly TaskEvent[]): TaskEvent {
    const { buffer, after: free } = this.ring.take(task.layer);
    const id = nativeCall(() => this.runtime.submitLoadWeight(task.layer, buffer, pendingIds([...after, ...free])));
    const event = new PendingEvent(id, task);
    this.ring.filledBy(buffer, event);
    this.pending.set(id, { event });
    return event;
  }

  /**
   * Where the streamed weights are that a task reads, if it reads any. Runs that share the device may have taken each other's buffers:
   * then the layer is loaded once more.
   */
  private weightsOf(task: Task): { readonly buffer: number; readonly load: TaskEvent | undefined } | undefined {
    const bytes = this.runtime.bytes.streamed[task.layer] ?? 0;
    if (bytes === 0 || task.part === 'embed' || task.part === 'attend' || task.part === 'head') return undefined;
    const found = this.ring.find(task.layer);
    if (found) return found;
    this.loadWeight({ ...task, run: 0, name: 'load_weight', queue: 'disk-read', bytes, from: 'disk', to: 'cpu' }, []);
    return this.ring.find(task.layer);
  }

  private openBatch(state: DeviceRunState, { rows, slot }: Task): NativeBatch {
    for (const [other, batch] of state.batches) if (batch.slot === slot && batch.outstanding === 0) this.closeBatch(state, other, batch);
    const natives = rows.map(({ row }) => {
      const native = state.rows.get(row);
      if (!native) throw new RangeError(`row ${row} is not open`);
      return native;
    });
    const pages: number[] = [];
    const table = new Int32Array(rows.length * BATCH_STRIDE);
    rows.forEach(({ firstPosition, tokens, head }, index) => {
      const native = natives[index];
      if (!native) return;
      table.set([native.handle, firstPosition, tokens, HEAD_MODES[head], pages.length, native.pages.length, -1], index * BATCH_STRIDE);
      pages.push(...native.pages);
    });
    const batch = { handle: nativeCall(() => this.runtime.createBatch(table, Int32Array.from(pages))), slot, rows: natives, outstanding: 0 };
    for (const native of natives) native.batches++;
    state.batches.set(rows, batch);
    return batch;
  }

  private closeBatch(state: DeviceRunState, rows: readonly RowRange[], batch: NativeBatch): void {
    nativeCall(() => this.runtime.freeBatch(batch.handle));
    state.batches.delete(rows);
    for (const row of batch.rows) {
      row.batches--;
      this.freeIfUnused(state, row);
    }
  }

  private freeIfUnused(state: DeviceRunState, row: NativeRow): void {
    if (!row.closed || row.batches > 0) return;
    nativeCall(() => this.runtime.freeRow(row.handle));
    state.rows.delete(row.id);
  }

  private complete({ events, errors, heads }: NativeCompletions): void {
    const failures = new Map(errors.map((error) => [error.event, error]));
    const outputs = new Map(heads.map((head) => [head.event, head]));
    const completions: Completion[] = [];
    for (let i = 0; i < events.length; i += 4) {
      const id = events[i] ?? 0;
      const entry = this.pending.get(id);
      if (!entry) continue;
      this.pending.delete(id);
      const { event, batch } = entry;
      event.timing = { start: events[i + 1] ?? 0, end: events[i + 2] ?? 0 };
      const failure = failures.get(id);
      if (failure) event.error = new TaskError(describeTask(event.task), `${failure.message} (${failure.code})`);
      const output = outputs.get(id);
      completions.push(output && batch ? { event, head: headOutput(output, batch) } : { event });
      if (!batch) continue;
      batch.outstanding--;
      const state = this.runs.get(event.task.run);
      if (state && event.task.part === 'head' && batch.outstanding === 0) this.closeBatch(state, event.task.rows, batch);
    }
    this.completed$.next(completions);
  }
}

function pendingIds(events: readonly TaskEvent[]): number[] {
  return events.filter(({ timing }) => timing === undefined).map(({ id }) => id);
}

function headOutput(result: NativeHeadResult, batch: NativeBatch): HeadOutput {
  const idOf = new Map(batch.rows.map(({ handle, id }) => [handle, id]));
  const sampled = new Map<RowId, SampledToken>();
  let nextTop = 0;
  result.rows.forEach((handle, i) => {
    const count = result.topCounts[i] ?? 0;
    const top = Array.from({ length: count }, (_, rank) => ({
      token: result.topTokens[nextTop + rank] ?? 0,
      logprob: result.topLogprobs[nextTop + rank] ?? NaN,
    }));
    nextTop += count;
    sampled.set(idOf.get(handle) ?? -1, { token: result.tokens[i] ?? 0, logprob: result.logprobs[i] ?? NaN, top });
  });
  const scored = new Map<RowId, Float32Array>();
  let nextScore = 0;
  for (let i = 0; i < result.scored.length; i += 3) {
    const count = result.scored[i + 2] ?? 0;
    scored.set(idOf.get(result.scored[i] ?? -1) ?? -1, result.scores.slice(nextScore, nextScore + count));
    nextScore += count;
  }
  return { sampled, scored };
}
