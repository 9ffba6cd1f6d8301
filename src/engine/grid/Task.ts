import type { GrammarPlace } from '../../bindings/Grammars.js';
import type { RowId, Square } from './Square.js';
import type { Place } from './Tier.js';

/** The parts of a model that are moved; statistics count bytes under these names. */
export type Moved = 'weights' | 'cache' | 'activations';

export interface TaskKind {
  /** Brings a square's inputs to where it is computed, computes it, takes away what it has put out, or none of it. */
  readonly does: 'load' | 'compute' | 'store' | 'other';
  /** The kind of data its bytes are. Default: it moves nothing. */
  readonly moves?: Moved;
}

/**
 * The tasks of a square, by FlexGen's names (algorithm 1), and what everybody who does not execute them has to know: a
 * new kind is a line here, a stage that issues it, and the devices that are to do it (`NativeDevice` has to say how one
 * completes that moves and computes nothing). Paths are checked of loads, computing and stores: of a task that does
 * something else only that it lies within its rows' lives, and that its square waits for it, not that it is there.
 */
export const TASK_KINDS = {
  load_weight: { does: 'load', moves: 'weights' },
  load_cache: { does: 'load', moves: 'cache' },
  load_activation: { does: 'load', moves: 'activations' },
  compute: { does: 'compute' },
  store_activation: { does: 'store', moves: 'activations' },
  store_cache: { does: 'store', moves: 'cache' },
  broadcast: { does: 'other', moves: 'activations' },
  all_reduce: { does: 'other', moves: 'activations' },
  all_to_all: { does: 'other', moves: 'activations' },
  all_to_all_back: { does: 'other', moves: 'activations' },
} as const satisfies Readonly<Record<string, TaskKind>>;
export type TaskName = keyof typeof TASK_KINDS;
export type MoveName = {
  [Name in TaskName]: (typeof TASK_KINDS)[Name] extends { readonly moves: Moved } ? Name : never;
}[TaskName];

export function kindOf(name: TaskName): TaskKind {
  return TASK_KINDS[name];
}

export function isMove(name: string): name is MoveName {
  return Object.hasOwn(TASK_KINDS, name) && kindOf(name as TaskName).moves !== undefined;
}

const MOVES = Object.keys(TASK_KINDS).filter(isMove);
export const LOADS: readonly MoveName[] = MOVES.filter((name) => kindOf(name).does === 'load');
export const STORES: readonly MoveName[] = MOVES.filter((name) => kindOf(name).does === 'store');

/**
 * Queues of a device. Tasks of one queue run one at a time, in the order in which they were submitted; tasks of
 * different queues overlap. Where the processor attends beside a GPU, tasks of `gpu-compute` that may begin overtake
 * those that wait: what comes before what is in their events alone.
 */
export const QUEUE_NAMES = [
  'gpu-compute',
  'cpu-compute',
  'host-to-device',
  'device-to-host',
  'disk-read',
  'disk-write',
  'peer-receive',
  'peer-send',
] as const;
export type QueueName = (typeof QUEUE_NAMES)[number];

/**
 * Parts of a square's compute: tasks of their own, so that attention may run where the pages are. `layer` is `project`,
 * `attend` and `finish` in one. Of a share of each layer `output`, `feedForward` and `add` are what `finish` is of
 * whole ones.
 */
export type ComputePart =
  'embed' | 'project' | 'attend' | 'finish' | 'head' | 'output' | 'feedForward' | 'add' | 'layer';

/** One way over one link. */
export interface Hop {
  readonly queue: QueueName;
  readonly from: Place;
  readonly to: Place;
  readonly bytes: number;
}

/** One unit of work for one queue, for a square. Plain data: a device decides what it means. */
export interface Task extends Square {
  /** Which run it belongs to; unique on the device. */
  readonly run: number;
  readonly name: TaskName;
  readonly part?: ComputePart;
  readonly queue: QueueName;
  /** Bytes that move; 0 for compute. */
  readonly bytes: number;
  readonly from?: Place;
  readonly to?: Place;
  /**
   * The moves of a task over other links beside its own, in pieces, so that these are busy together: what comes from
   * disk through the host's memory to a GPU, or goes back. It takes their queues as well. Default: nothing.
   */
  readonly hops?: readonly Hop[] | undefined;
}

/** A task, or a move, as each of the links that it uses sees it; its own is the last one. */
export function hopsOf<Moving extends Pick<Task, 'hops'>>(moving: Moving): readonly Moving[] {
  const { hops } = moving;
  return hops ? [...hops.map((hop) => ({ ...moving, ...hop, hops: undefined })), moving] : [moving];
}

/** The value that `submit` returns: the completion of one task. */
export interface TaskEvent {
  /** From 1, increasing in order of submission on one device. */
  readonly id: number;
  readonly task: Task;
  /** Seconds on the clock of performance.now(), or virtual seconds; undefined until completed. */
  readonly timing: { readonly start: number; readonly end: number } | undefined;
  /** Why it failed; undefined while pending or when fine. */
  readonly error: Error | undefined;
  /**
   * True for a compute task in the middle of which pages of the cache crossed a link, so that its time is not that of
   * computing alone. Default false.
   */
  readonly movesPages?: boolean;
  /**
   * The bytes of the cache that a task has really read from disk, and when: of a load in place of its task's, of
   * attention beside computing. Default: what the task says.
   */
  readonly read?: { readonly bytes: number; readonly start: number; readonly end: number } | undefined;
}

type Timing = NonNullable<TaskEvent['timing']>;

/**
 * A completed task as each of the links that it used sees it, and when. Values that attention has read from disk are a
 * load.
 */
export function workOf({ task, read }: TaskEvent, timing: Timing): readonly (readonly [Task, Timing])[] {
  if (!read) return hopsOf(task).map((hop) => [hop, timing]);
  const { run, batch, layer } = task;
  const { bytes } = read;
  if (task.name === 'load_cache') return hopsOf({ ...task, bytes }).map((hop) => [hop, timing]);
  const load: Task = { run, batch, layer, name: 'load_cache', queue: 'disk-read', from: 'disk', to: 'cpu', bytes };
  return [...hopsOf(task).map((hop) => [hop, timing] as const), [load, read]];
}

/** The output of the head for the rows of a batch that sampled or scored. */
export interface HeadOutput {
  readonly sampled: ReadonlyMap<RowId, SampledToken>;
  /**
   * Log-probabilities of a row's own next tokens, one for each position of its range that has one; NaN where the logits
   * are not finite.
   */
  readonly scored: ReadonlyMap<RowId, Float32Array>;
}

export interface SampledToken {
  /** 0 where there is none, for the row's logits are not finite. */
  readonly token: number;
  /**
   * There is none. `layer`: the first one of the engine that samples after which the row's hidden states were not
   * finite either; none, where they were after all of them, and where nobody looked (on a GPU).
   */
  readonly notFinite?: { readonly layer?: number };
  /**
   * Where the row's grammar is after the token, if it has one, and why it failed, if it did: then there is no token
   * either.
   */
  readonly place?: GrammarPlace;
  readonly failure?: string;
  /**
   * Tokens that follow for sure, as the row's grammar has it, and are known already: `place` is where it is after
   * them. Default: none.
   */
  readonly forced?: readonly number[];
  /** NaN where the row asked for none. */
  readonly logprob: number;
  /**
   * How likely it was, under the model's own distribution over the tokens that the row's grammar allowed, if the row
   * asked. Default: there was no other, or nobody asked.
   */
  readonly certainty?: number;
  readonly top: readonly { readonly token: number; readonly logprob: number }[];
  /** [hiddenSize], of a row that is embedded: there is no token then. */
  readonly embedding?: Float32Array;
}

/** Words for a task in messages. */
export function describeTask({ name, part, batch, layer }: Pick<Task, 'name' | 'part' | 'batch' | 'layer'>): string {
  const { pass, slot } = batch;
  return `${name}${part === undefined ? '' : ` (${part})`} pass ${pass} layer ${layer} slot ${slot}`;
}
