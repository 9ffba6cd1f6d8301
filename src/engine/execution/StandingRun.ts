import { Subscription, type Observable } from 'rxjs';
import { batchTokens, tokensByPhase, type Batch } from '../grid/Square.js';
import type { Call } from './Call.js';
import { JoinedCall, type JoinedCallSetup, type JoinedRun } from './JoinedCall.js';
import type { Run } from './Run.js';
import type { RunRecorder } from './RunRecorder.js';

export interface StandingRunSetup {
  /** Begins a run. @param computed to be told how long its batches are computed for */
  open(computed: (batch: Batch, seconds: number) => void): {
    readonly run: Run<unknown>;
    readonly recorder: RunRecorder;
  };
  /** Takes its squares through the stages. */
  through(run: Run<unknown>): Observable<unknown>;
}

interface OpenRun {
  readonly run: Run<unknown>;
  readonly recorder: RunRecorder;
  /** The calls that have joined and of which something is left. */
  readonly calls: Map<Call<unknown>, JoinedCall<unknown>>;
  /** To its squares, from when the first call has joined. */
  squares: Subscription | undefined;
}

/** Whose tokens a batch computes. */
type Shares = readonly (readonly [Call<unknown>, ReturnType<typeof tokensByPhase>])[];

/**
 * The run that calls of an engine join: one window, one schedule, one admission, whoever asks for what. It begins with
 * the first call, and is over when none is left.
 */
export class StandingRun implements JoinedRun {
  private current: OpenRun | undefined;
  private readonly runs = new WeakMap<JoinedCall<unknown>, OpenRun>();
  /** The same for all layers of a batch. */
  private readonly shares = new WeakMap<Batch, Shares>();

  constructor(private readonly setup: StandingRunSetup) {}

  /** The recorder that counts what the device does for all calls. */
  get recorder(): RunRecorder {
    return this.opened().recorder;
  }

  /** A call that joins when its results are subscribed to. */
  call<Result>(setup: JoinedCallSetup<Result>): JoinedCall<Result> {
    return new JoinedCall(setup, this);
  }

  join<Result>(joined: JoinedCall<Result>): void {
    const open = this.opened();
    const call = joined.call as Call<unknown>;
    open.calls.set(call, joined);
    this.runs.set(joined, open);
    if (open.calls.size === 2) for (const each of open.calls.keys()) each.recorder.shared = true;
    else if (open.calls.size > 2) call.recorder.shared = true;
    open.run.join(call);
    if (open.squares) return;
    // First, for rows are pulled while it is subscribed to, and whoever gives them may begin a call that joins, too.
    open.squares = new Subscription();
    open.squares.add(
      this.setup.through(open.run).subscribe({
        error: (error: unknown) => {
          for (const each of [...open.calls.values()]) each.fail(error);
        },
      }),
    );
  }

  leave<Result>(joined: JoinedCall<Result>): void {
    const open = this.runs.get(joined);
    if (!open) {
      joined.drain();
      return;
    }
    const { run, squares } = open;
    run.leave(joined.call);
    // Nobody wants what is under way.
    if (run.callCount === 0) squares?.unsubscribe();
  }

  drained<Result>(joined: JoinedCall<Result>): void {
    this.runs.get(joined)?.calls.delete(joined.call);
  }

  private opened(): OpenRun {
    if (this.current && !this.current.run.closed) return this.current;
    const { run, recorder } = this.setup.open((batch, seconds) => {
      this.spent(open, batch, seconds);
    });
    const open: OpenRun = { run, recorder, calls: new Map(), squares: undefined };
    void run.drained.then(() => {
      for (const each of [...open.calls.values()]) each.drain();
    });
    return (this.current = open);
  }

  /** A batch's time is that of whoever has tokens in it. */
  private spent({ run }: OpenRun, batch: Batch, seconds: number): void {
    let shares = this.shares.get(batch);
    if (!shares) {
      shares = Array.from(run.shares(batch), ([call, rows]) => [call, tokensByPhase({ rows })] as const);
      this.shares.set(batch, shares);
    }
    const tokens = batchTokens(batch);
    for (const [call, share] of shares) call.recorder.spent(seconds, share, tokens);
  }
}
