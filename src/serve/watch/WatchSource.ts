import type { EngineActivity } from '../../RunStats.js';

/** A name and what there is to say of it, for people. */
export type Fact = readonly [name: string, value: string];

/** A source that is watched, as it is when somebody looks. */
export interface WatchSource {
  /** The title of the page. */
  readonly title: string;
  /** Says what it is about: model, input, output. */
  facts(): readonly Fact[];
  /** By which plan it runs. */
  plan(): readonly Fact[];
  /**
   * Rows so far; `total` where it is known how many there will be, `kept` those of earlier runs, which count in `total`
   * and not in `done`.
   */
  rows(): {
    readonly done: number;
    readonly failed: number;
    readonly active?: number | undefined;
    readonly total?: number | undefined;
    readonly kept?: number;
  };
  tokens(): { readonly prompt: number; readonly generated: number };
  /** Says what open engines do, by the names of their models. */
  engines(): ReadonlyMap<string, EngineActivity>;
}

/** A row that failed. */
export interface FailedRow {
  readonly id: string | number;
  readonly error: { readonly code: string; readonly message: string };
}

export type WatchState = 'running' | 'finished' | 'failed' | 'stopped';

/** The state of things in a second. */
export interface WatchSample {
  /** Milliseconds since 1970. */
  readonly at: number;
  /** Since the beginning. */
  readonly seconds: number;
  readonly rows: ReturnType<WatchSource['rows']>;
  readonly tokens: ReturnType<WatchSource['tokens']>;
  /** A second, since the sample before. */
  readonly rates: { readonly rows: number; readonly prompt: number; readonly generated: number };
  /** Seconds that are left, if it goes on like that. */
  readonly left?: number;
  /** The share of the time that each queue was busy, and bytes a second. */
  readonly queues: readonly { readonly name: string; readonly busy: number; readonly bytes: number }[];
  readonly memory: readonly { readonly name: string; readonly used: number; readonly capacity: number }[];
  readonly residentBytes: number;
}

/** Tasks, in milliseconds before the sample that they come with: queue, name, start, end, how many. */
export type WatchedStretch = readonly [queue: string, name: string, start: number, end: number, tasks: number];

/** An event that a watcher is told: at first all that is kept, then a second at a time. */
export interface WatchEvent {
  readonly state: WatchState;
  /** Why it ended, where it did not end well. */
  readonly reason?: string;
  readonly samples: readonly WatchSample[];
  /** Stretches of the last sample. */
  readonly stretches: readonly WatchedStretch[];
  readonly failed?: FailedRows;
  readonly about?: { readonly title: string; readonly facts: readonly Fact[]; readonly plan: readonly Fact[] };
}

/** The rows that failed last, the last one first, and how many failed of what. */
export interface FailedRows {
  readonly rows: readonly {
    readonly id: string;
    readonly code: string;
    readonly message: string;
    readonly at: number;
  }[];
  readonly counts: readonly (readonly [code: string, count: number])[];
}
