import { Subject } from 'rxjs';
import { KEEPS_NONE } from '../memory/cacheGroups.js';
import {
  COMPUTE_PARTS,
  type NativeCompletions,
  type NativeRuntime,
  type NativeTaskError,
} from '../../bindings/Addon.js';
import { nativeCall } from '../../bindings/nativeCall.js';
import { TaskError } from '../../errors/engineErrors.js';
import type { PageTable } from '../grid/PageTable.js';
import { batchTokens, type GridShare } from '../grid/Square.js';
import { storeRemedy } from '../store/storeRemedy.js';
import { BufferRing } from './BufferRing.js';
import type { Completion, Device, DevicePeers, DeviceRow } from '../grid/Device.js';
import { headOutput } from './headOutput.js';
import { NativeRun, type CacheMoves, type NativeBatch } from './NativeRun.js';
import type { PageStretch } from '../peers/pageStretches.js';
import { PeerTransfers } from './PeerTransfers.js';
import { PendingEvent } from './PendingEvent.js';
import { SlotActivations, type SpilledActivations } from './SlotActivations.js';
import { describeTask, kindOf, QUEUE_NAMES, type QueueName, type Task, type TaskEvent } from '../grid/Task.js';
import type { ComputeTier } from '../grid/Tier.js';

/** The settings that a native runtime was opened with, as far as its device needs to know them. */
export interface NativeDeviceSetup {
  /** Layers' streamed weights that the runtime has room for; 0 where nothing streams. */
  readonly weightBuffers: number;
  /** Buffers for the pages of a batch in a layer; 0 where none of them move. */
  readonly cacheBuffers: number;
  readonly pageTokens: number;
  /** Groups of layers, each with a page table of a row. Default 1. */
  readonly groups?: number | undefined;
  readonly fetch?: CacheMoves['fetch'];
  /** The share of each layer that the runtime has. Default: all of them. */
  readonly share?: GridShare | undefined;
  /** Number of the first layer that the runtime has; tasks name layers by their numbers in the model. Default 0. */
  readonly firstLayer?: number;
  /** True where tokens are embedded here: what comes from a peer are tokens then, else hidden states. Default true. */
  readonly embeds?: boolean;
  /** Attention window of each layer, in tokens; 0 = all positions. */
  readonly windows: readonly number[];
  /** Undefined where hidden states stay where they are computed. */
  readonly activations?: SpilledActivations | undefined;
  /** The file that layers stream from, if any: discarded when it turns out to be damaged. */
  readonly storePath?: string | undefined;
  /** Where computing happens. Default cpu. */
  readonly computeTier?: ComputeTier;
  /** True where the processor attends to some of the cache beside a GPU. Default false. */
  readonly hostAttends?: boolean;
  readonly sharesPromptsOnly?: boolean;
}

interface PendingTask {
  readonly event: PendingEvent;
  readonly run: NativeRun | undefined;
  readonly batch: NativeBatch | undefined;
}

const GPU_QUEUES: readonly QueueName[] = ['gpu-compute', 'host-to-device', 'device-to-host'];

const NO_EVENTS: readonly TaskEvent[] = [];

/** A buffer of a ring, for a task that uses what it holds. */
interface Held {
  readonly buffer: number;
  readonly load: TaskEvent | undefined;
}

/**
 * The addon as a device: tasks become calls of the native runtime, its completions become events. Shared by all runs of
 * an engine.
 *
 * With a GPU one task brings something from disk through the host's memory over the link, in pieces, or the way back:
 * it is the link's, and what is the disk's of it is one of its hops.
 */
export class NativeDevice implements Device {
  readonly name = 'native';
  readonly queues: readonly QueueName[];
  readonly computeTier: ComputeTier;
  readonly computeQueue: QueueName;
  readonly attendQueue: QueueName;
  readonly joinsParts: boolean;
  readonly sharesPromptsOnly: boolean;
  readonly completed$ = new Subject<readonly Completion[]>();

  private readonly runs = new Map<number, NativeRun>();
  private readonly pending = new Map<number, PendingTask>();
  private readonly weights: BufferRing;
  private readonly cache: BufferRing;
  /** Bytes of each layer's weights that stream. */
  private readonly streamed: readonly number[];
  private readonly firstLayer: number;
  private readonly transfers: PeerTransfers;

  constructor(
    private readonly runtime: NativeRuntime,
    private readonly setup: NativeDeviceSetup,
  ) {
    const tier = setup.computeTier ?? 'cpu';
    this.computeTier = tier;
    this.computeQueue = `${tier}-compute`;
    this.attendQueue = setup.hostAttends ? 'cpu-compute' : this.computeQueue;
    this.joinsParts = tier === 'cpu' && setup.cacheBuffers === 0;
    this.sharesPromptsOnly = setup.sharesPromptsOnly ?? false;
    this.queues = QUEUE_NAMES.filter((name) =>
      tier === 'gpu' ? name !== 'cpu-compute' || setup.hostAttends : !GPU_QUEUES.includes(name),
    );
    this.streamed = runtime.bytes.streamed;
    this.firstLayer = setup.firstLayer ?? 0;
    this.transfers = new PeerTransfers(runtime);
    this.weights = new BufferRing(setup.weightBuffers);
    this.cache = new BufferRing(setup.cacheBuffers);
    runtime.onCompleted((completions) => {
      this.complete(completions);
    });
  }

  promptKind(promptTokens: number): string {
    const { longPromptTokens } = this.runtime;
    return longPromptTokens > 0 && promptTokens >= longPromptTokens ? 'long' : '';
  }

  submit(task: Task, after: readonly TaskEvent[]): TaskEvent {
    if (
      this.computeTier === 'gpu' &&
      kindOf(task.name).moves !== 'cache' &&
      (task.from === 'disk' || task.to === 'disk')
    )
      throw new TaskError(
        describeTask(task),
        'what comes from disk or goes there crosses the link in the same task: its way there is one of the hops of that',
      );
    switch (task.name) {
      case 'load_weight':
        return this.loadWeight(task, after);
      case 'load_cache':
        return this.loadCache(task, after);
      case 'store_cache':
        return this.storeCache(task, after);
      case 'load_activation':
      case 'store_activation':
        return this.moveActivation(task, after);
      case 'broadcast':
      case 'all_reduce':
      case 'all_to_all':
      case 'all_to_all_back':
        return this.moveToPeer(task, after);
      case 'compute':
        return this.compute(task, after);
    }
  }

  openRun(
    run: number,
    { slots, tokensPerSquare, peers }: { slots: number; tokensPerSquare: number; peers?: DevicePeers | undefined },
  ): void {
    const activations = new SlotActivations(this.runtime, slots, tokensPerSquare, this.setup.activations);
    const lastLayer = this.firstLayer + this.setup.windows.length - 1;
    this.runs.set(
      run,
      new NativeRun(this.runtime, this.setup, { first: this.firstLayer, last: lastLayer }, activations, peers),
    );
  }

  closeRun(run: number): void {
    this.run(run).close();
    this.runs.delete(run);
  }

  openRow(run: number, row: number, sequence: DeviceRow, pages: PageTable): void {
    this.run(run).openRow(row, sequence, pages);
  }

  /** Copies pages of a row whose tokens there have been through all layers. */
  readPages(run: number, row: number, { first, count }: PageStretch): Uint8Array {
    return this.run(run).readPages(row, first, count);
  }

  closeRow(run: number, row: number): void {
    this.run(run).closeRow(row);
  }

  /**
   * One run's cancellation must not touch another's, so what has been submitted runs to its end: a window of squares,
   * no more. Only what waits for a peer fails.
   */
  cancelRun(run: number): void {
    this.transfers.cancel(run);
  }

  async close(): Promise<void> {
    await this.runtime.close();
    this.completed$.complete();
  }

  private run(run: number): NativeRun {
    const state = this.runs.get(run);
    if (!state) throw new RangeError(`run ${run} is not open`);
    return state;
  }

  private compute(task: Task, after: readonly TaskEvent[]): TaskEvent {
    const { part, layer } = task;
    if (part === undefined) throw new TaskError(describeTask(task), 'a compute task names its part');
    const run = this.run(task.run);
    const batch = run.batchOf(task);
    const activations = run.activations.forCompute(task);
    const weights = this.weightsFor(task);
    const cache = part === 'attend' ? this.cacheFor(task, run, batch) : undefined;
    // Of a slot one part after another, whatever a composition says: its hidden states are in one place.
    const left = run.computed.get(task.batch.slot);
    if (part === 'attend' && this.setup.share?.attention && batch.attending === undefined) {
      const event = this.transfers.nothing(task, run, [...after, ...(left ? [left] : NO_EVENTS), ...activations.after]);
      batch.outstanding++;
      this.pending.set(event.id, { event, run, batch });
      run.computed.set(task.batch.slot, event);
      activations.used(event);
      return event;
    }
    const waitsFor = pendingIds(after, left ? [left] : NO_EVENTS, activations.after, loads(weights), cache?.after);
    const id = nativeCall(() =>
      this.runtime.submitCompute(
        COMPUTE_PARTS[part],
        layer - this.firstLayer,
        (part === 'attend' ? batch.attending : undefined) ?? batch.handle,
        activations.handle,
        waitsFor,
        weights?.buffer ?? -1,
        cache?.buffer ?? -1,
      ),
    );
    const event = this.track(id, task, run, batch, cache?.groups !== undefined && cache.groups > 1);
    run.computed.set(task.batch.slot, event);
    activations.used(event);
    if (weights) this.weights.usedBy(weights.buffer, event);
    if (cache) this.cache.usedBy(cache.buffer, event);
    return event;
  }

  private loadWeight(task: Task, after: readonly TaskEvent[]): TaskEvent {
    const { buffer, after: free } = this.weights.take(task.layer);
    const layer = task.layer - this.firstLayer;
    const event = this.track(
      nativeCall(() =>
        // Less than the whole layer: its experts come once they have been chosen.
        this.runtime.submitLoadWeight(layer, buffer, pendingIds(after, free), task.bytes < (this.streamed[layer] ?? 0)),
      ),
      task,
    );
    this.weights.filledBy(buffer, event);
    return event;
  }

  /**
   * Where the streamed weights are that a task reads, if it reads any. Runs that share the device may have taken each
   * other's buffers: then the layer is loaded once more.
   */
  private weightsFor(task: Task): Held | undefined {
    const bytes = this.streamed[task.layer - this.firstLayer] ?? 0;
    const { part } = task;
    if (bytes === 0 || part === 'embed' || part === 'attend' || part === 'head' || part === 'add') return undefined;
    const found = this.weights.find(task.layer);
    if (found) return found;
    const link =
      this.computeTier === 'gpu'
        ? ({ queue: 'host-to-device', from: 'cpu', to: 'gpu' } as const)
        : ({ queue: 'disk-read', from: 'disk', to: 'cpu' } as const);
    this.loadWeight({ ...task, run: 0, name: 'load_weight', bytes, ...link, hops: undefined }, []);
    return this.weights.find(task.layer);
  }

  private loadCache(task: Task, after: readonly TaskEvent[]): TaskEvent {
    const run = this.run(task.run);
    const batch = run.batchOf(task);
    const { buffer, after: free } = this.cache.take(contentOf(batch, task));
    const id = nativeCall(() =>
      this.runtime.submitLoadCache(task.layer - this.firstLayer, batch.handle, buffer, pendingIds(after, free)),
    );
    const event = this.track(id, task, run, batch);
    this.cache.filledBy(buffer, event);
    return event;
  }

  private storeCache(task: Task, after: readonly TaskEvent[]): TaskEvent {
    const run = this.run(task.run);
    const batch = run.batchOf(task);
    const held = this.cache.find(contentOf(batch, task));
    if (!held)
      throw new TaskError(
        describeTask(task),
        'no buffer holds its pages: the pipeline lacks compute before storeCache',
      );
    const id = nativeCall(() =>
      this.runtime.submitStoreCache(task.layer - this.firstLayer, batch.handle, held.buffer, pendingIds(after)),
    );
    const event = this.track(id, task, run, batch);
    this.cache.usedBy(held.buffer, event);
    return event;
  }

  /**
   * The buffer through which attention sees pages that move, if the batch has any such in this layer: what it
   * completes, or changes, is put there too.
   */
  private cacheFor(
    task: Task,
    run: NativeRun,
    batch: NativeBatch,
  ):
    | { readonly buffer: number; readonly after: readonly TaskEvent[]; readonly groups?: number | undefined }
    | undefined {
    const window = this.setup.windows[task.layer - this.firstLayer] ?? 0;
    if (window === KEEPS_NONE) return undefined;
    const { loads: loaded, stores, groups } = run.movedBy(batch, window);
    if (loaded + stores === 0) return undefined;
    const content = contentOf(batch, task);
    const held = this.cache.find(content);
    if (held) return { buffer: held.buffer, after: loads(held), groups };
    if (loaded > 0)
      throw new TaskError(describeTask(task), 'its pages were not loaded: the pipeline lacks loadCache before compute');
    return { ...this.cache.take(content), groups };
  }

  private moveActivation(task: Task, after: readonly TaskEvent[]): TaskEvent {
    if (task.from === 'peer' || task.to === 'peer') return this.moveToPeer(task, after);
    const { activations } = this.run(task.run);
    const loading = task.name === 'load_activation';
    const place = loading ? activations.forLoad(task) : activations.forStore(task);
    const tokens = batchTokens(task.batch);
    const waitsFor = pendingIds(after, place.after);
    const id = nativeCall(() =>
      loading
        ? this.runtime.submitLoadActivation(place.store, place.handle, tokens, waitsFor)
        : this.runtime.submitStoreActivation(place.store, place.handle, tokens, waitsFor),
    );
    const event = this.track(id, task);
    place.used(event);
    return event;
  }

  private moveToPeer(task: Task, after: readonly TaskEvent[]): TaskEvent {
    const run = this.run(task.run);
    const batch = run.batchOf(task);
    const transfer =
      task.name === 'all_reduce'
        ? this.transfers.reduce(task, run, after)
        : task.name === 'all_to_all' || task.name === 'all_to_all_back'
          ? this.transfers.exchange(task, run, batch, after)
          : task.name === 'broadcast'
            ? this.transfers.broadcast(task, run, after)
            : task.to === 'peer'
              ? this.transfers.send(task, run, after)
              : this.transfers.receive(task, run, after, this.setup.embeds === false);
    batch.outstanding++;
    this.pending.set(transfer.id, { event: transfer, run, batch });
    return transfer;
  }

  private track(id: number, task: Task, run?: NativeRun, batch?: NativeBatch, movesPages = false): PendingEvent {
    const event = new PendingEvent(id, task, movesPages);
    if (batch) batch.outstanding++;
    this.pending.set(id, { event, run, batch });
    return event;
  }

  private complete({ events, errors, heads, hidden, read: pages }: NativeCompletions): void {
    const failures = new Map(errors.map((error) => [error.event, error]));
    const outputs = new Map(heads.map((head) => [head.event, head]));
    const read = new Map(hidden.map((each) => [each.event, each.hidden]));
    for (const { event, ...each } of pages) {
      const entry = this.pending.get(event);
      if (entry) entry.event.read = each;
    }
    const completions: Completion[] = [];
    for (let i = 0; i < events.length; i += 4) {
      const id = events[i] ?? 0;
      const timing = { start: events[i + 1] ?? 0, end: events[i + 2] ?? 0 };
      const failure = failures.get(id);
      const entry = this.pending.get(id);
      if (!entry) {
        this.transfers.copied(id, timing, read.get(id), failure);
        continue;
      }
      this.pending.delete(id);
      const { event, run, batch } = entry;
      const branch = read.get(id);
      if (branch && run) run.branches.set(event.task.batch.slot, branch);
      const error = failure && new TaskError(describeTask(event.task), this.reasonOf(failure));
      event.settle(timing, error);
      const output = outputs.get(id);
      if (output && batch) {
        const rowOf = new Map(batch.rows.map((row) => [row.handle, row.id]));
        completions.push({ event, head: headOutput(output, (handle) => rowOf.get(handle) ?? -1, this.firstLayer) });
      } else completions.push({ event });
      if (run && batch) run.completed(batch, event.task);
    }
    this.completed$.next(completions);
  }

  private reasonOf({ message, code }: NativeTaskError): string {
    const { storePath } = this.setup;
    const damagedStore = code === 'file' && storePath !== undefined && message.startsWith(`${storePath}: `);
    return `${message} (${code})${damagedStore ? `; ${storeRemedy(storePath)}` : ''}`;
  }
}

/** Names what the cache ring keeps apart: a batch in a layer. */
function contentOf({ serial }: NativeBatch, { run, layer }: Task): string {
  return `${run} ${serial} ${layer}`;
}

function loads(held: Held | undefined): readonly TaskEvent[] {
  return held?.load ? [held.load] : NO_EVENTS;
}

/** Numbers of the events that have not completed, each once. */
function pendingIds(...groups: readonly (readonly TaskEvent[] | undefined)[]): number[] {
  const ids: number[] = [];
  for (const events of groups)
    for (const { id, timing } of events ?? NO_EVENTS) if (timing === undefined && !ids.includes(id)) ids.push(id);
  return ids;
}
