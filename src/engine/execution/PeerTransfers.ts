import type { NativeRuntime, NativeTaskError } from '../../bindings/Addon.js';
import { nativeCall } from '../../bindings/nativeCall.js';
import { TaskError } from '../../errors/engineErrors.js';
import { batchTokens } from '../grid/Square.js';
import { NumberMemory } from '../grid/NumberMemory.js';
import { putTogether, takeOut } from '../grid/rowExchange.js';
import type { NativeBatch, NativeRun } from './NativeRun.js';
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
  private readonly copies = new Map<number, TransferEvent>();
  /** Memory of numbers that are taken out, or put together, each time until they have been copied on. */
  private readonly numbers = {
    rows: { out: new NumberMemory(), together: new NumberMemory() },
    heads: { out: new NumberMemory(), together: new NumberMemory() },
  } as const;

  constructor(private readonly runtime: NativeRuntime) {}

  /** @param hidden hidden states come in, not tokens */
  receive(task: Task, run: NativeRun, after: readonly TaskEvent[], hidden: boolean): PendingEvent {
    const place = hidden ? run.activations.forReceive(task) : undefined;
    const transfer = this.open(task, run);
    place?.used(transfer);
    const waitsFor = [...after, ...(place?.after ?? [])];
    void (async () => {
      const arrived = this.peersOf(transfer).receive(task);
      await this.arrived(transfer, waitsFor);
      const received = await arrived;
      if (!this.isOpen(transfer)) return;
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

  send(task: Task, run: NativeRun, after: readonly TaskEvent[]): PendingEvent {
    const place = run.activations.forCompute(task);
    const waitsFor = [...after, ...place.after].filter(({ timing }) => timing === undefined).map(({ id }) => id);
    const copy = nativeCall(() => this.runtime.submitReadHidden(place.handle, batchTokens(task.batch), waitsFor));
    const transfer = this.open(task, run);
    place.used(transfer);
    this.copies.set(copy, transfer);
    return transfer;
  }

  /** The first engine's embedded tokens go to all that share its layers. */
  broadcast(task: Task, run: NativeRun, after: readonly TaskEvent[]): PendingEvent {
    const transfer = this.open(task, run);
    void (async () => {
      await this.arrived(transfer, after);
      if (!this.isOpen(transfer)) return;
      const start = now();
      const sent = this.peersOf(transfer).send(task, run.takeBranch(task));
      transfer.copied = { start, end: now() };
      await sent;
      this.complete(transfer);
    })().catch((error: unknown) => {
      this.fail(transfer, error);
    });
    return transfer;
  }

  /** A branch goes round the engines that share its layer, and comes back as the sum of all shares. */
  reduce(task: Task, run: NativeRun, after: readonly TaskEvent[]): PendingEvent {
    const place = run.activations.forCompute(task);
    const transfer = this.open(task, run);
    place.used(transfer);
    const waitsFor = [...after, ...place.after];
    void (async () => {
      await this.arrived(transfer, waitsFor);
      if (!this.isOpen(transfer)) return;
      const sum = await this.peersOf(transfer).reduce(task, run.takeBranch(task));
      if (!this.isOpen(transfer)) return;
      const start = now();
      nativeCall(() => {
        this.runtime.writeHidden(place.handle, sum, true);
        this.runtime.giveBackHidden(sum);
      });
      transfer.copied = { start, end: now() };
      this.complete(transfer);
    })().catch((error: unknown) => {
      this.fail(transfer, error);
    });
    return transfer;
  }

  /**
   * Queries, keys and values of a layer go to the engines that keep their rows; or what these have attended to comes
   * back to those that have its heads.
   */
  exchange(task: Task, run: NativeRun, batch: NativeBatch, after: readonly TaskEvent[]): PendingEvent {
    const place = run.activations.forCompute(task);
    const transfer = this.open(task, run);
    place.used(transfer);
    const waitsFor = [...after, ...place.after];
    const exchange = task.name === 'all_to_all' ? 'rows' : 'heads';
    void (async () => {
      await this.arrived(transfer, waitsFor);
      if (!this.isOpen(transfer)) return;
      const { division } = batch;
      if (!division) throw new RangeError('all engines attend to all rows');
      const { index, kept, lengths } = division;
      const routes = division.routes[exchange];
      const own = run.takeBranch(task);
      const peers = this.peersOf(transfer);
      const { out, together } = this.numbers[exchange];
      const going = takeOut(own, routes, kept, index, (length) => out.take(length));
      const arrived = await peers.exchange(task, going, lengths[exchange]);
      if (!this.isOpen(transfer)) return;
      const start = now();
      const values = putTogether(arrived, own, routes, kept, index, (length) => together.take(length));
      peers.giveBack(arrived);
      nativeCall(() => {
        if (exchange === 'heads') this.runtime.writeAttended(place.handle, values);
        else if (batch.attending !== undefined)
          this.runtime.writeRows(place.handle, batch.attending, task.layer - run.firstLayer, values);
        this.runtime.giveBackHidden(own);
      });
      transfer.copied = { start, end: now() };
      this.complete(transfer);
    })().catch((error: unknown) => {
      this.fail(transfer, error);
    });
    return transfer;
  }

  /** Attention to a batch of which this engine keeps no row. */
  nothing(task: Task, run: NativeRun, after: readonly TaskEvent[]): PendingEvent {
    const transfer = this.open(task, run);
    void (async () => {
      await this.arrived(transfer, after);
      if (!this.isOpen(transfer)) return;
      run.branches.set(task.batch.slot, new Float32Array(0));
      this.complete(transfer);
    })().catch((error: unknown) => {
      this.fail(transfer, error);
    });
    return transfer;
  }

  /** A native task has completed that nobody but a transfer knows of: copying out. */
  copied(copy: number, timing: Timing, hidden: Float32Array | undefined, failure: NativeTaskError | undefined): void {
    const transfer = this.copies.get(copy);
    this.copies.delete(copy);
    if (!transfer || !this.isOpen(transfer)) return;
    const { task } = transfer;
    if (failure || !hidden) {
      this.fail(
        transfer,
        new TaskError(describeTask(task), failure ? `${failure.message} (${failure.code})` : 'nothing was copied'),
      );
      return;
    }
    transfer.copied = timing;
    this.peersOf(transfer)
      .send(task, hidden)
      .then(
        () => {
          this.complete(transfer);
        },
        (error: unknown) => {
          this.fail(transfer, error);
        },
      );
  }

  /** Fails all of the run that waits for a peer. */
  cancel(run: number): void {
    for (const transfer of [...this.transfers.values()]) {
      if (transfer.task.run === run) this.fail(transfer, new TaskError(describeTask(transfer.task), 'cancelled'));
    }
  }

  /** @throws TaskError (rejects) if one of them has failed */
  private async arrived({ task }: TransferEvent, waitsFor: readonly TaskEvent[]): Promise<void> {
    await Promise.all(waitsFor.map(completed));
    const failed = waitsFor.find(({ error }) => error !== undefined);
    if (failed) throw new TaskError(describeTask(task), `${describeTask(failed.task)} failed`);
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
