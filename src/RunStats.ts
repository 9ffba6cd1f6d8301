import type { EnginePlan } from './engine/open/EnginePlan.js';
import type { RunCorrections } from './engine/calibration/learn.js';
import type { PredictedRun } from './engine/calibration/predictRun.js';
import type { Spending } from './plan/spending.js';
import type { Replan } from './engine/calibration/WorkloadDrift.js';

/** A view on a run that is under way. */
export interface Progress {
  readonly sharing: Sharing;
  readonly rowsDone: number;
  readonly rowsFailed: number;
  readonly rowsActive: number;
  readonly promptTokens: number;
  readonly generatedTokens: number;
  readonly seconds: number;
  /** Over the last seconds, not since the start. */
  readonly tokensPerSecond: number;
}

/** The work not computed. */
export interface Sharing {
  /**
   * Tokens of prompts that rows had from others, less those that were computed for nobody in particular, before them.
   */
  readonly promptTokensSaved: number;
  /** Rows that were answered with the answer of an equal one. */
  readonly rowsEqual: number;
  /** Rows that were answered with the answer of an earlier run (`reuse`). */
  readonly rowsReused: number;
}

/** A run's figures: the document of `--stats`. */
export interface RunStats {
  readonly model: string;
  /** A policy for `parsePolicy` and `--policy`, unless its `schedule` is one of one's own. */
  readonly policy: Readonly<Record<string, unknown>>;
  /**
   * `cut`: answers of `done` that ended at their limit of new tokens, and not where the model would have. `truncated`:
   * rows of the input of whose prompt some was cut (`truncate`). `begunTwice`: rows of the input whose prompt has the
   * model's begin token in its text, and once more before that.
   */
  readonly rows: {
    readonly done: number;
    readonly failed: number;
    readonly cut: number;
    readonly truncated: number;
    readonly begunTwice: number;
  };
  readonly tokens: { readonly prompt: number; readonly generated: number };
  /**
   * The work that was not computed because other rows had done it. Rows that are equal to others, or to earlier ones,
   * count in `rows`, and their tokens nowhere.
   */
  readonly sharing: Sharing;
  /** `load`: opening, repacking, profiling. `prefill` and `decode` share the time of mixed passes by tokens. */
  readonly seconds: { readonly wall: number; readonly load: number; readonly prefill: number; readonly decode: number };
  /** Tokens / (wall - load). */
  readonly tokensPerSecond: { readonly generated: number; readonly prompt: number };
  /** Bytes moved, by what and over which link, e.g. bytes.weights['disk→cpu']. */
  readonly bytes: Readonly<Record<'weights' | 'cache' | 'activations', Readonly<Record<string, number>>>>;
  readonly queues: Readonly<
    Record<string, { readonly busySeconds: number; readonly tasks: number; readonly bytes: number }>
  >;
  readonly memory: Readonly<Record<string, { readonly capacityBytes: number; readonly peakBytes: number }>>;
  /**
   * With a GPU: of the weights in host memory, and of the cache there where the GPU reaches it, what the system did not
   * let be pinned (a limit of the container, say). It crosses the link by copies of up to four threads, more slowly.
   * 0 is well.
   */
  readonly unpinnedBytes?: number;
  readonly residentPeakBytes: number;
  /**
   * The cost model's prediction for a run like this one, by the machine's profile; left out where the machine was not
   * measured, for schedules of one's own, and where other calls were under way beside this one.
   */
  readonly predicted?: PredictedRun;
  /**
   * The part of `predicted` that earlier runs taught, and what this run teaches; left out where `predicted` is, and
   * where the machine is used otherwise than it was measured.
   */
  readonly corrections?: RunCorrections;
  /**
   * How the policy came about; `replans`: where `maxLatency` bounds the latency, changes of how many rows run together
   * because they turned out longer or shorter than planned, those of earlier runs of the engine included.
   */
  readonly plan?: Pick<EnginePlan, 'origin' | 'why' | 'machineSpeed'> & { readonly replans: readonly Replan[] };
  /**
   * The models of a cascade, each with what it did. The rest is the sum of their runs, or, where there is none
   * (`policy`), of the last one.
   */
  readonly cascade?: readonly CascadeModelStats[];
  /**
   * Money and energy of the whole machine during the run, loading left out: by the price and the watts of the hardware
   * file, the energy by the processor's own counters where the system lets them be read (without a GPU, which they do
   * not see).
   */
  readonly spending?: Spending;
  /** The JavaScript thread's own work for the run. */
  readonly orchestration: { readonly seconds: number; readonly fractionOfWall: number };
}

/** The figures of one model of a cascade. */
export interface CascadeModelStats {
  readonly model: string;
  /** From which confidence on its answers stand; null where all do. */
  readonly threshold: number | null;
  /** Rows that it was given, and those that have its answer. */
  readonly rows: number;
  readonly answered: number;
  readonly tokens: RunStats['tokens'];
  readonly seconds: RunStats['seconds'];
}

/** One event of Chrome's trace format. Times are microseconds. */
export interface TraceEvent {
  readonly name: string;
  /** X: a task; C: counter; i: instant, a row that was admitted; b, e: a row from then to its end; M: metadata. */
  readonly ph: 'X' | 'C' | 'i' | 'b' | 'e' | 'M';
  /** The track of a row, and which row it is. */
  readonly cat?: string;
  readonly id?: number;
  readonly ts: number;
  readonly dur?: number;
  readonly pid: number;
  readonly tid: number;
  readonly args: Readonly<Record<string, unknown>>;
}

/** Tasks of a queue that followed one another closely. Seconds on the clock of `performance.now()`. */
export interface TaskStretch {
  readonly queue: string;
  /** The name of the first of these tasks, as `--trace` has it. */
  readonly name: string;
  readonly start: number;
  readonly end: number;
  readonly tasks: number;
}

/** An engine's work since it was first asked, whoever called it: to be looked at now and then. */
export interface EngineActivity {
  /** When it was looked at, in seconds on the clock of `performance.now()`. */
  readonly at: number;
  /** Tokens that were computed of prompts, and that were sampled. */
  readonly tokens: { readonly prompt: number; readonly generated: number };
  readonly queues: RunStats['queues'];
  readonly memory: Readonly<
    Record<string, { readonly capacityBytes: number; readonly usedBytes: number; readonly peakBytes: number }>
  >;
  /** The work of its queues in the last ten seconds. */
  readonly stretches: readonly TaskStretch[];
}
