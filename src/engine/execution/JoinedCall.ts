import { Observable, Subscription, type Subscriber } from 'rxjs';
import { InterruptedError } from '../../errors/InterruptedError.js';
import { Call, type CallOptions } from './Call.js';
import { onAbort } from './onAbort.js';
import type { RowFeed } from './RowFeed.js';
import type { RunRecorder } from './RunRecorder.js';

export interface JoinedCallSetup<Result> extends CallOptions {
  readonly feed: RowFeed<Result>;
  readonly recorder: RunRecorder;
  readonly signal?: AbortSignal | undefined;
}

/** The run a call joins. */
export interface JoinedRun {
  /** Its rows come in from now on. */
  join<Result>(call: JoinedCall<Result>): void;
  /** It wants no more results. */
  leave<Result>(call: JoinedCall<Result>): void;
  /** Nothing of it is left on the device. */
  drained<Result>(call: JoinedCall<Result>): void;
}

/**
 * A call from when somebody subscribes to its results to the last trace of it on the device. It ends for itself: with
 * its last row, its source's error, its signal, what a callback of its own throws, or when nobody subscribes any more;
 * only what ends the run ends all calls in it.
 */
export class JoinedCall<Result> {
  readonly call: Call<Result>;
  /** The results of its rows, as they come to their ends. To be subscribed to once. */
  readonly results$: Observable<Result>;
  /** Resolved when nothing of the call is left on the device. */
  readonly drained: Promise<void>;
  private subscriber: Subscriber<Result> | undefined;
  private closed = false;
  private isDrained = false;
  private resolveDrained: () => void = () => undefined;
  /** The first error thrown by a callback of the caller's. */
  private thrown: { readonly error: unknown } | undefined;
  /** Why the call has failed, where it has. */
  private reason: { readonly error: unknown } | undefined;
  private readonly listening = new Subscription();

  constructor(
    private readonly setup: JoinedCallSetup<Result>,
    private readonly run: JoinedRun,
  ) {
    const { feed, recorder } = setup;
    this.drained = new Promise((resolve) => (this.resolveDrained = resolve));
    this.call = new Call<Result>(
      feed,
      recorder,
      {
        result: (result) => this.subscriber?.next(result),
        over: () => {
          this.over();
        },
        left: () => {
          this.drain();
        },
        failed: (error) => {
          this.fail(error);
        },
      },
      setup,
    );
    recorder.onError((error) => {
      this.thrown ??= { error };
      // One turn later, so that nothing which counts or computes is cut short by it.
      setImmediate(() => {
        this.fail(error);
      });
    });
    this.results$ = new Observable((subscriber) => {
      this.begin(subscriber);
      return () => {
        this.close();
      };
    });
  }

  /** Ends the call with an error, whatever was thrown. */
  fail(error: unknown): void {
    if (this.closed) return;
    this.reason = { error };
    this.close();
    this.subscriber?.error(error);
  }

  /**
   * Waits until nothing of the call is left on the device, and callbacks have ended. @throws what one of them threw,
   * where no error of the stream could say so: its consumer had gone
   */
  async settled(): Promise<void> {
    await this.drained;
    // Of a call that has failed nobody waits for what they make of it.
    if (!this.reason) await this.setup.recorder.heard();
    if (this.thrown && !this.reason) throw this.thrown.error;
  }

  /** Nothing of the call is left on the device, or of the run that it is in. */
  drain(): void {
    if (this.isDrained || !this.closed) return;
    this.isDrained = true;
    this.run.drained(this);
    this.setup.recorder.end();
    this.resolveDrained();
  }

  private begin(subscriber: Subscriber<Result>): void {
    const { signal } = this.setup;
    this.subscriber = subscriber;
    if (this.closed) {
      subscriber.error(this.reason?.error);
      return;
    }
    if (signal?.aborted) {
      this.fail(new InterruptedError(signal.reason));
      return;
    }
    if (signal)
      this.listening.add(
        onAbort(signal, (reason) => {
          this.fail(new InterruptedError(reason));
        }),
      );
    try {
      this.run.join(this);
    } catch (error) {
      this.fail(error);
    }
  }

  private over(): void {
    if (this.closed) return;
    this.closed = true;
    this.listening.unsubscribe();
    this.drain();
    // All is over by now, and the caller has been told.
    this.reason = this.thrown;
    if (this.reason) this.subscriber?.error(this.reason.error);
    else this.subscriber?.complete();
  }

  private close(): void {
    if (this.closed) return;
    this.closed = true;
    this.listening.unsubscribe();
    this.run.leave(this);
  }
}
