import type { NativeRuntime, NativeTaskError } from '../../bindings/Addon.js';
import { nativeCall } from '../../bindings/nativeCall.js';
import { TaskError } from '../../errors/engineErrors.js';
import { batchTokens } from '../grid/Square.js';
import type { NativeRun } from './NativeRun.js';
import { PendingEvent } from './PendingEvent.js';
import { describeTask, type Task, type TaskEvent } from '../grid/Task.js';

interface Timing {
  readonly start: number;
  readonly end: number;
}

/** The event of a task between the native runtime and a peer, which no native task completes. */
class TransferEvent extends PendingEvent {
  /** How long data were copied: the task's own work, without waiting for the peer. */
  copied: Timing | undefined;
  /** Why it failed, better than the runtime knows. */
  failure: Error | undefined;

  constructor(
    id: number,
    task: Task,
    readonly run: NativeRun,
  ) {
    super(id, task);
  }

  override settle(timing: Timing, error?: Error): void {
    super.settle(this.copied ?? timing, error && (this.failure ?? error));
  }
}

/**
 * The tasks of a native device that receive from peers and send to them. Other native tasks wait for their events like
 * for any other; JavaScript completes them when the peer has given, or taken, what they are about.
 */
export class PeerTransfers {
  private readonly transfers = new Map<number, TransferEvent>();
  /** Sends whose hidden states are being copied out of their buffer, by the event of the copy. */
  private readonly copies = new Map<number, { readonly transfer: TransferEvent; readonly handle: number }>();

  constructor(private readonly runtime: NativeRuntime) {}

  /** @param hidden hidden states come in, not tokens */
  receive(task: Task, run: NativeRun, after: readonly TaskEvent[], hidden: boolean): PendingEvent {
    const place = hidden ? run.activations.forReceive(task) : undefined;
    const transfer = this.open(task, run);
    place?.used(transfer);
    const waitsFor = [...after, ...(place?.after ?? [])];
    void (async () => {
      const arrived = this.peersOf(transfer).receive(task);
      await Promise.all(waitsFor.map(completed));
      const received = await arrived;
      if (!this.isOpen(transfer)) return;
      const failed = waitsFor.find(({ error }) => error !== undefined);
      if (failed) throw new TaskError(describeTask(task), `${describeTask(failed.task)} failed`);
      const start = now();
      if (place) this.write(place.handle, task, received.hidden ?? new Float32Array(0));
      else this.append(run, received.tokens ?? new Map<number, number>());
      transfer.copied = { start, end: now() };
      this.complete(transfer);
    })().catch((error: unknown) => {
      this.fail(transfer, error);
    });
    return transfer;
  }

  /** Hidden states go to a peer; or a branch round the engines that share the layer, and its sum comes back. */
  send(task: Task, run: NativeRun, after: readonly TaskEvent[]): PendingEvent {
    const place = run.activations.forCompute(task);
    const branch = task.name === 'all_reduce';
    const waitsFor = [...after, ...place.after].filter(({ timing }) => timing === undefined).map(({ id }) => id);
    const copy = nativeCall(() =>
      this.runtime.submitReadHidden(place.handle, batchTokens(task.batch), waitsFor, branch),
    );
    const transfer = this.open(task, run);
    place.used(transfer);
    this.copies.set(copy, { transfer, handle: place.handle });
    return transfer;
  }

  /** A native task has completed that nobody but a transfer knows of: copying out. */
  copied(copy: number, timing: Timing, hidden: Float32Array | undefined, failure: NativeTaskError | undefined): void {
    const { transfer, handle } = this.copies.get(copy) ?? {};
    this.copies.delete(copy);
    if (!transfer || handle === undefined || !this.isOpen(transfer)) return;
    const { task } = transfer;
    if (failure || !hidden) {
      this.fail(
        transfer,
        new TaskError(describeTask(task), failure ? `${failure.message} (${failure.code})` : 'nothing was copied'),
      );
      return;
    }
    transfer.copied = timing;
    this.deliver(transfer, handle, hidden).then(
      () => {
        this.complete(transfer);
      },
      (error: unknown) => {
        this.fail(transfer, error);
      },
    );
  }

  /** What of the run waits for a peer fails. */
  cancel(run: number): void {
    for (const transfer of [...this.transfers.values()]) {
      if (transfer.task.run === run) this.fail(transfer, new TaskError(describeTask(transfer.task), 'cancelled'));
    }
  }

  private async deliver(transfer: TransferEvent, handle: number, values: Float32Array): Promise<void> {
    const { task } = transfer;
    const peers = this.peersOf(transfer);
    if (task.name !== 'all_reduce') return peers.send(task, values);
    const sum = await peers.reduce(task, values);
    if (!this.isOpen(transfer)) return;
    nativeCall(() => {
      this.runtime.writeHidden(handle, sum, true);
    });
  }

  private open(task: Task, run: NativeRun): TransferEvent {
    const transfer = new TransferEvent(
      nativeCall(() => this.runtime.createEvent()),
      task,
      run,
    );
    this.transfers.set(transfer.id, transfer);
    return transfer;
  }

  private isOpen(transfer: TransferEvent): boolean {
    return this.transfers.has(transfer.id);
  }

  private peersOf({ task, run }: TransferEvent): NonNullable<NativeRun['peers']> {
    if (!run.peers) throw new TaskError(describeTask(task), 'the run has no peers');
    return run.peers;
  }

  private write(handle: number, task: Task, hidden: Float32Array): void {
    const tokens = batchTokens(task.batch);
    // The runtime knows how wide a token is; that all of them are there is for us to see.
    if (hidden.length === 0 || hidden.length % tokens !== 0 || hidden.length * 4 !== task.bytes) {
      throw new TaskError(
        describeTask(task),
        `hidden states: found ${hidden.length} numbers, expected ${task.bytes / 4} for ${tokens} tokens`,
      );
    }
    nativeCall(() => {
      this.runtime.writeHidden(handle, hidden);
    });
  }

  private append(run: NativeRun, tokens: ReadonlyMap<number, number>): void {
    const rows = run.handlesOf(tokens.keys());
    nativeCall(() => {
      this.runtime.appendTokens(rows, Int32Array.from(tokens.values()));
    });
  }

  private complete(transfer: TransferEvent): void {
    if (this.transfers.delete(transfer.id)) this.runtime.completeEvent(transfer.id);
  }

  private fail(transfer: TransferEvent, error: unknown): void {
    if (!this.transfers.delete(transfer.id)) return;
    transfer.failure =
      error instanceof TaskError
        ? error
        : new TaskError(describeTask(transfer.task), error instanceof Error ? error.message : String(error), {
            cause: error,
          });
    this.runtime.failEvent(transfer.id, 'a transfer from or to a peer failed');
  }
}

/** A device's own events say when they complete. */
function completed(event: TaskEvent): Promise<void> {
  if (!(event instanceof PendingEvent)) throw new TypeError('an event of another device');
  return new Promise((resolve) => {
    event.whenCompleted(resolve);
  });
}

function now(): number {
  return performance.now() / 1000;
}
