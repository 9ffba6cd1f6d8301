import type { CascadeModelStats, Progress, RunStats } from '../RunStats.js';
import { spendingTogether } from '../plan/spending.js';
import type { CascadeStage } from './CascadeStage.js';

type Counts = Pick<RunStats['rows'], 'done' | 'failed' | 'cut'>;

/** The statistics of the runs of a cascade's models, together and each. */
export class CascadeStats {
  private readonly models: { readonly stage: CascadeStage; rows: number; answered: number; runs: RunStats[] }[];
  private readonly began = performance.now();

  constructor(stages: readonly CascadeStage[]) {
    this.models = stages.map((stage) => ({ stage, rows: 0, answered: 0, runs: [] }));
  }

  answered(at: number, stands: boolean): void {
    const model = this.models[at];
    if (!model) return;
    model.rows += 1;
    if (stands) model.answered += 1;
  }

  add(at: number, stats: RunStats): void {
    this.models[at]?.runs.push(stats);
  }

  /** A model's progress as the cascade's. */
  progress(now: Progress, { done, failed }: Counts): Progress {
    const before = this.models.flatMap(({ runs }) => runs);
    return {
      ...now,
      rowsDone: done,
      rowsFailed: failed,
      promptTokens: now.promptTokens + sum(before, ({ tokens }) => tokens.prompt),
      generatedTokens: now.generatedTokens + sum(before, ({ tokens }) => tokens.generated),
      seconds: (performance.now() - this.began) / 1000,
    };
  }

  /** Undefined where no model told of its run. */
  total(counts: Counts): RunStats | undefined {
    const runs = this.models.flatMap((model) => model.runs);
    const last = runs.at(-1);
    if (!last) return undefined;
    const { predicted: _predicted, corrections: _corrections, plan: _plan, spending: _spending, ...others } = last;
    const seconds = secondsOf(runs);
    const tokens = tokensOf(runs);
    const spending = spendingTogether(
      runs.map((run) => run.spending),
      tokens.generated,
    );
    const computing = Math.max(seconds.wall - seconds.load, Number.MIN_VALUE);
    const orchestration = sum(runs, (run) => run.orchestration.seconds);
    return {
      ...others,
      model: this.models.map(({ stage }) => stage.name).join(', '),
      cascade: this.models.map((model): CascadeModelStats => ({
        model: model.stage.name,
        threshold: model.stage.threshold ?? null,
        rows: model.rows,
        answered: model.answered,
        tokens: tokensOf(model.runs),
        seconds: secondsOf(model.runs),
      })),
      rows: {
        ...counts,
        truncated: sum(runs, ({ rows }) => rows.truncated),
        begunTwice: sum(runs, ({ rows }) => rows.begunTwice),
      },
      tokens,
      sharing: {
        promptTokensSaved: sum(runs, ({ sharing }) => sharing.promptTokensSaved),
        rowsEqual: sum(runs, ({ sharing }) => sharing.rowsEqual),
        rowsReused: sum(runs, ({ sharing }) => sharing.rowsReused),
      },
      seconds,
      tokensPerSecond: { generated: tokens.generated / computing, prompt: tokens.prompt / computing },
      bytes: {
        weights: sums(runs.map(({ bytes }) => bytes.weights)),
        cache: sums(runs.map(({ bytes }) => bytes.cache)),
        activations: sums(runs.map(({ bytes }) => bytes.activations)),
      },
      queues: joined(
        runs.map(({ queues }) => queues),
        (a, b) => ({
          busySeconds: a.busySeconds + b.busySeconds,
          tasks: a.tasks + b.tasks,
          bytes: a.bytes + b.bytes,
        }),
      ),
      memory: joined(
        runs.map(({ memory }) => memory),
        (a, b) => ({
          capacityBytes: Math.max(a.capacityBytes, b.capacityBytes),
          peakBytes: Math.max(a.peakBytes, b.peakBytes),
        }),
      ),
      residentPeakBytes: Math.max(...runs.map(({ residentPeakBytes }) => residentPeakBytes)),
      ...(spending && { spending }),
      orchestration: {
        seconds: orchestration,
        fractionOfWall: orchestration / Math.max(seconds.wall, Number.MIN_VALUE),
      },
    };
  }
}

function tokensOf(runs: readonly RunStats[]): RunStats['tokens'] {
  return { prompt: sum(runs, ({ tokens }) => tokens.prompt), generated: sum(runs, ({ tokens }) => tokens.generated) };
}

function secondsOf(runs: readonly RunStats[]): RunStats['seconds'] {
  return {
    wall: sum(runs, ({ seconds }) => seconds.wall),
    load: sum(runs, ({ seconds }) => seconds.load),
    prefill: sum(runs, ({ seconds }) => seconds.prefill),
    decode: sum(runs, ({ seconds }) => seconds.decode),
  };
}

function sum(runs: readonly RunStats[], of: (run: RunStats) => number): number {
  return runs.reduce((total, run) => total + of(run), 0);
}

function sums(all: readonly Readonly<Record<string, number>>[]): Readonly<Record<string, number>> {
  return joined(all, (a, b) => a + b);
}

function joined<T>(all: readonly Readonly<Record<string, T>>[], join: (a: T, b: T) => T): Readonly<Record<string, T>> {
  const made = new Map<string, T>();
  for (const each of all)
    for (const [name, value] of Object.entries(each)) {
      const before = made.get(name);
      made.set(name, before === undefined ? value : join(before, value));
    }
  return Object.fromEntries(made);
}
