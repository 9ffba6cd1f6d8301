import { Subscription, type Subscriber } from 'rxjs';
import { errorOf } from '../../errors/errorOf.js';
import { InterruptedError } from '../../errors/InterruptedError.js';
import { UsageError } from '../../errors/UsageError.js';
import type { Completion, Device, DevicePeers } from '../grid/Device.js';
import type { Grid } from '../grid/Square.js';
import type { TaskEvent } from '../grid/Task.js';
import type { IssuedSquare } from './IssuedSquare.js';
import { onAbort } from './onAbort.js';
import type { RunRecorder } from './RunRecorder.js';
import type { StageTask } from './StageContext.js';

export interface LifecycleSetup {
  /** Unique on the device. */
  readonly id: number;
  readonly device: Device;
  readonly grid: Grid;
  readonly recorder: RunRecorder;
  readonly signal?: AbortSignal | undefined;
}

/** The actions that follow when something becomes of a run. */
export interface LifecycleEvents {
  /** Somebody has subscribed. */
  begin(): void;
  completed(completion: Completion): void;
  /** Nothing more is issued. @param error why, where that is not its end */
  closing(error: Error | undefined): void;
  /** Nothing is under way on the device. */
  drained(): void;
}

/**
 * A run from its first task to the last trace of it on the device: who takes its squares, how it ends, and what it ends
 * with.
 */
export class RunLifecycle {
  /** Resolved when nothing of the run is left on the device. */
  readonly drained: Promise<void>;
  /** All squares have come, and have passed all stages. */
  finished = false;
  closed = false;

  private subscriber: Subscriber<IssuedSquare> | undefined;
  /** Tasks that have not completed. */
  private outstanding = 0;
  /** The error of the first failed task. */
  private taskError: Error | undefined;
  /** The first error thrown by a callback of the caller's. */
  private thrown: { readonly error: unknown } | undefined;
  /** Why the run has failed, where it has: whatever was thrown. */
  private reason: { readonly error: unknown } | undefined;
  private isDrained = false;
  private resolveDrained: () => void = () => undefined;
  /** To what the device completes, for as long as anything of the run is there. */
  private readonly completions: Subscription;
  /** To what may happen to the run, until it is closed. */
  private readonly listening = new Subscription();

  constructor(
    private readonly setup: LifecycleSetup,
    peers: DevicePeers | undefined,
    private readonly events: LifecycleEvents,
  ) {
    const { id, device, grid, recorder, signal } = setup;
    this.drained = new Promise((resolve) => (this.resolveDrained = resolve));
    // First: what it refuses is no run, and nothing may listen for it.
    device.openRun(id, { slots: grid.slots, tokensPerSquare: grid.tokensPerSquare, peers });
    if (signal)
      this.listening.add(
        onAbort(signal, (reason) => {
          this.fail(new InterruptedError(reason));
        }),
      );
    recorder.onError((error) => {
      this.callbackThrew(error);
    });
    this.completions = device.completed$.subscribe((burst) => {
      recorder.timed(() => {
        this.complete(burst);
      });
    });
  }

  /** Somebody takes squares. */
  get wanted(): boolean {
    return !this.closed && this.subscriber?.closed === false;
  }

  /** Listens to something until the run is closed. */
  listen(subscription: Subscription): void {
    this.listening.add(subscription);
  }

  /** Connects the subscriber that waits for the run's squares; `squares(run)` calls this once. */
  connect(subscriber: Subscriber<IssuedSquare>): void {
    if (this.subscriber)
      throw new UsageError(
        'squares: found a run that has been subscribed to, expected one that has not: each subscription takes a run of its own',
      );
    this.subscriber = subscriber;
    if (this.closed) {
      subscriber.error(
        this.reason
          ? this.reason.error
          : new UsageError('squares: found a run that is closed, expected one that has not begun'),
      );
      return;
    }
    this.guarded(() => {
      if (this.setup.signal?.aborted) throw new InterruptedError(this.setup.signal.reason);
      this.events.begin();
    });
  }

  emit(square: IssuedSquare): void {
    this.subscriber?.next(square);
  }

  submit({ batch, layer }: IssuedSquare, task: StageTask, after: readonly TaskEvent[]): TaskEvent {
    const { device, id } = this.setup;
    const event = device.submit({ ...task, bytes: task.bytes ?? 0, batch, layer, run: id }, after);
    this.outstanding++;
    return event;
  }

  /** Does something for the run while it is open, and fails it with what that throws. */
  guarded(act: () => void): void {
    if (this.closed) return;
    try {
      this.setup.recorder.timed(act);
    } catch (error) {
      this.fail(error);
    }
  }

  /**
   * Ends the run before its time: nothing more is issued, `drained` follows when the device is done with what was.
   * Idempotent.
   * @param error what peers are told; by default the first task's that has failed
   */
  close(error: Error | undefined = this.taskError): void {
    if (this.closed) return;
    this.closed = true;
    this.events.closing(error);
    this.listening.unsubscribe();
    this.setup.device.cancelRun(this.setup.id);
    this.finishDraining();
  }

  /** Ends the run with an error, whatever was thrown. */
  fail(error: unknown): void {
    if (this.closed) return;
    this.reason = { error };
    this.close(errorOf(error));
    this.subscriber?.error(error);
  }

  /** The stream of squares ends well. */
  finish(): void {
    if (this.closed) return;
    this.finished = true;
    this.close();
    // All is over by now, and the caller has been told.
    this.reason = this.thrown;
    if (this.reason) this.subscriber?.error(this.reason.error);
    else this.subscriber?.complete();
  }

  /**
   * Waits until nothing of the run is left on the device, and callbacks have ended. @throws what one of them threw,
   * where no error of the stream could say so: its consumer had gone
   */
  async settled(): Promise<void> {
    await this.drained;
    // Of a run that has failed nobody waits for what they make of it.
    if (!this.reason) await this.setup.recorder.heard();
    if (this.thrown && !this.reason) throw this.thrown.error;
  }

  /** One turn later, so that nothing which counts or computes is cut short by it. */
  private callbackThrew(error: unknown): void {
    this.thrown = { error };
    setImmediate(() => {
      this.fail(error);
    });
  }

  private complete(burst: readonly Completion[]): void {
    for (const completion of burst) {
      const { task, error } = completion.event;
      if (task.run !== this.setup.id) continue;
      this.outstanding--;
      this.taskError ??= error;
      this.setup.recorder.completed(completion.event);
      this.events.completed(completion);
    }
    if (this.closed) this.finishDraining();
  }

  private finishDraining(): void {
    if (this.outstanding > 0 || this.isDrained) return;
    this.isDrained = true;
    this.completions.unsubscribe();
    this.events.drained();
    this.setup.device.closeRun(this.setup.id);
    this.setup.recorder.end();
    this.resolveDrained();
  }
}
