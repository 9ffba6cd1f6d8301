import type { Observable } from 'rxjs';
import type { NativeGrammar } from '../../bindings/Grammars.js';
import type { PageTable } from './PageTable.js';
import type { Lengths } from './rowExchange.js';
import type { HeadOutput, QueueName, Task, TaskEvent } from './Task.js';
import type { ComputeTier } from './Tier.js';

/** A task completed, well or not. */
export interface Completion {
  readonly event: TaskEvent;
  /** The output of a compute task with part `head`. */
  readonly head?: HeadOutput;
}

/**
 * Which hidden states after the final norm make an embedding: the last token's, the mean of all, the first one's, the
 * largest of all in each dimension, or the mean of all in which token i weighs i + 1.
 */
export type Pooling = (typeof DEVICE_POOLINGS)[number];
export const DEVICE_POOLINGS = ['last', 'mean', 'first', 'max', 'weightedmean'] as const;

/** Changes of a row's logits before its next token is chosen. */
export interface LogitAdjustments {
  /** Taken from the logit of each token that has been generated. */
  readonly presencePenalty: number;
  /** Taken likewise, for each time that the token has been generated. */
  readonly frequencyPenalty: number;
  /** Added to the logits of `biasedTokens`, one for each. */
  readonly biases: readonly number[];
  readonly biasedTokens: readonly number[];
  /** Tokens that do not come before `minNewTokens` have. */
  readonly endTokens: readonly number[];
  readonly minNewTokens: number;
  /** Sequences of tokens, none empty: the last of each does not come after the others. */
  readonly badWords: readonly (readonly number[])[];
}

/** Keys and values of a row's first tokens, computed elsewhere: whole pages, the last one as far as they fill it. */
export interface GivenPages {
  /** Fewer than the row has; 0 where pages are only made empty. */
  readonly tokens: number;
  /** Stretches of pages as `NativeRuntime.readPages` copies them. They are there once. */
  take(): readonly { readonly first: number; readonly count: number; readonly values: Uint8Array }[];
  /** For the first tokens, where these are computed by themselves and rows go on from there. Default: nothing. */
  beginning?(tokens: number): GivenPages;
}

/** How a row's next tokens are chosen, as a device needs to know it. */
export interface DeviceRow {
  readonly tokens: readonly number[];
  /** Most tokens the row will ever hold. */
  readonly capacityTokens: number;
  /**
   * How many of `tokens`, from the first, are a prompt, for which attention is dense; more where they only begin it.
   * Default: all.
   */
  readonly promptTokens?: number;
  readonly temperature: number;
  readonly topP: number;
  readonly topK: number;
  readonly minP: number;
  readonly repetitionPenalty: number;
  readonly seed: number;
  /** Alternatives to report with each token; -1 for no log-probabilities. */
  readonly logprobs: number;
  /** The grammar its new tokens follow. Default: any may come. */
  readonly grammar?: NativeGrammar;
  /** Default: none. */
  readonly adjustments?: LogitAdjustments;
  /**
   * Tokens whose log-probabilities are reported with each token, in this order, instead of those of the most likely
   * ones. Default: those.
   */
  readonly candidates?: readonly number[];
  /** How likely each new token was among those that might come is reported with it. Default false. */
  readonly certainty?: boolean;
  /**
   * The row is not sampled from: it has an embedding instead. All but `last` take in tokens from the first on, so
   * that such a row shares nothing. Default: it is.
   */
  readonly pooling?: Pooling;
  /** The position from which on tokens are the second one's, in a pair of texts, where a model tells these apart. */
  readonly secondText?: number;
  /** Default: all of its tokens are computed here. */
  readonly given?: GivenPages;
}

/** The data that a task receives from a peer. */
export interface Received {
  /** Hidden states of the square's tokens: [tokens, hiddenSize], row-major. */
  readonly hidden?: Float32Array;
  /** For the model's first layer: the tokens that some of the square's rows begin with, sampled elsewhere. */
  readonly tokens?: ReadonlyMap<number, number>;
}

/** The engines of the layers before and after, as far as a device needs to know them. */
export interface DevicePeers {
  /**
   * Resolves when it has come what a `load_activation` from a peer loads; stays pending when it never comes: the run is
   * cancelled then.
   */
  receive(task: Task): Promise<Received>;
  /**
   * Hands on what a `store_activation` to a peer stores, or a `broadcast` sends; resolves when it has been taken. To be
   * called in order of the tasks.
   */
  send(task: Task, hidden: Float32Array): Promise<void>;
  /**
   * Resolves to the sum of what all engines that share the task's layer have of an `all_reduce`; stays pending like
   * `receive`. Of a slot one after another.
   * @param values [tokens, hiddenSize], row-major: this engine's, which become the sum
   */
  reduce(task: Task, values: Float32Array): Promise<Float32Array>;
  /**
   * Resolves to what has come from each engine for this one, of an `all_to_all` or its way back; pending and in order
   * like `reduce`.
   * @param going what each other engine gets, as they follow in the ring: copied at once
   */
  exchange(task: Task, going: Float32Array, lengths: Lengths): Promise<Float32Array[]>;
  /** Takes what an exchange resolved to back: nobody looks at it any more. */
  giveBack(arrived: readonly Float32Array[]): void;
}

/**
 * Something that executes tasks: the native addon, or a simulation in virtual time. Rows and slots are announced before
 * tasks name them; everything else about a task is in the task.
 */
export interface Device {
  readonly name: string;
  readonly queues: readonly QueueName[];
  /** Where computing happens, and so where a square's inputs have to be. */
  readonly computeTier: ComputeTier;
  readonly computeQueue: QueueName;
  /**
   * Where attention is computed, if not on `computeQueue`: where the processor attends beside a GPU it has a queue of
   * its own. The GPU computes other batches meanwhile: tasks of its queue that may begin overtake those that wait.
   */
  readonly attendQueue?: QueueName;
  /**
   * No keys and values come or go between the parts of a layer's compute, so that a task may be all of them: each task
   * takes time of the JavaScript thread, which takes a processor from the tasks. Default false.
   */
  readonly joinsParts?: boolean;
  /**
   * Names what a prompt's results depend on beside its tokens: only rows of one kind share what they begin with.
   * Default: nothing.
   */
  promptKind?(promptTokens: number): string;
  /**
   * Tokens after a prompt are computed otherwise than a prompt's (sparse attention, a GPU's kernels for few rows), and
   * stand in for none of these. Default: they are the same to the bit.
   */
  readonly sharesPromptsOnly?: boolean;

  /**
   * Queues a task; never waits. It starts when all of `after` have completed. Completions are announced later, never
   * inside `submit`. (What a task waits for is no part of it: events would otherwise hold the whole history of a run in
   * memory.)
   */
  submit(task: Task, after: readonly TaskEvent[]): TaskEvent;

  /** Completions in order, in bursts; a device shared by several runs announces all of theirs. Never errors. */
  readonly completed$: Observable<readonly Completion[]>;

  /** A run announces itself before its first task, with the width of its slots. */
  openRun(
    run: number,
    options: { readonly slots: number; readonly tokensPerSquare: number; readonly peers?: DevicePeers | undefined },
  ): void;
  /** After the run's last completion: frees what `openRun` took. */
  closeRun(run: number): void;

  /**
   * `pages`: the KV pages of the row. The table grows: before a task is submitted it reaches as far as the task's
   * positions.
   */
  openRow(run: number, row: number, sequence: DeviceRow, pages: PageTable): void;
  /** Frees the row as soon as no task needs it any more. */
  closeRow(run: number, row: number): void;

  /** Tasks of the run that wait for a peer complete with an error, and others that have not started may. */
  cancelRun(run: number): void;

  close(): Promise<void>;
}
