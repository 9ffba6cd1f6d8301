import { Writable } from 'node:stream';
import type { EnginePlan } from './engine/open/EnginePlan.js';
import { layOutEngine } from './engine/open/layOutEngine.js';
import { longestRowOf } from './engine/open/layOutMemory.js';
import type { Plan } from './engine/open/planEngine.js';
import { type DryRow, DryRuns } from './engine/rows/DryRuns.js';
import type { EngineOptions } from './EngineOptions.js';
import type { RowErrorCode } from './errors/RowError.js';
import { checkWholeJob } from './jobs/checkJobOptions.js';
import { ErrorLimit } from './jobs/ErrorLimit.js';
import { JobInput } from './jobs/input/JobInput.js';
import { checkJobFiles } from './jobs/jobFiles.js';
import { jobFormats } from './jobs/jobFormats.js';
import type { JobOptions } from './jobs/JobOptions.js';
import { jobTaskOf } from './jobs/jobTask.js';
import { RowSubset } from './jobs/RowSubset.js';
import type { Policy } from './plan/Policy.js';
import { predict, type Prediction } from './plan/predict.js';
import type { RowInput } from './Row.js';

/** A job as `runJob` is told of it, but for what it writes, and an engine as `Engine.open` is. */
export interface DryRunOptions extends Omit<
  JobOptions,
  'output' | 'outputFormat' | 'errors' | 'resume' | 'retryErrors' | 'overwrite' | 'shard'
> {
  readonly engine: EngineOptions;
  /** Called with the number of rows that have been read, now and then. */
  readonly onRows?: (rows: number) => void;
}

/** The work a job would do. */
export interface DryRunReport {
  /** Rows that would be answered or refused, and answers: of a row that is asked for samples there are several. */
  readonly rows: number;
  readonly answers: number;
  /** Rows that would be errors, by what is wrong; what only their answers show is not among it. */
  readonly failed: Readonly<Partial<Record<RowErrorCode, number>>>;
  /** The first 10,000 of them. */
  readonly bad: readonly BadRowReport[];
  /** There, and true, if more rows fail than may: the run would end early. */
  readonly stopped?: true;
  /** Tokens of prompts, each prompt counted for every answer to it. `estimated`: not all rows were read. */
  readonly promptTokens: {
    readonly total: number;
    readonly median: number;
    readonly max: number;
    readonly estimated: boolean;
  };
  /** Most tokens that all answers may have. */
  readonly newTokens: number;
  /** The row with the longest prompt; undefined where there is none. */
  readonly longest?: RowPlace;
  /** The first prompts, as the model sees them: special tokens, too. */
  readonly prompts: readonly (RowPlace & { readonly text: string })[];
  /** By which plan the engine would be opened. */
  readonly plan: EnginePlan;
  /** The prediction of what that plan does with these rows; undefined where nothing was planned (`plan.why`). */
  readonly predicted?: Prediction;
}

/** Which row of the input. */
export interface RowPlace {
  readonly id: string | number;
  readonly index: number;
}

export interface BadRowReport extends RowPlace {
  readonly code: RowErrorCode;
  readonly message: string;
}

/** Prompts that are shown. */
const PROMPTS = 3;
/** Rows with an error that are named. */
const BAD_ROWS = 10_000;
/** Rows between two calls of `onRows`. */
const TOLD_ROWS = 256;

/**
 * Reads a job's rows as its run would, checks them and makes tokens of them, and plans for them. Reads no weights,
 * computes nothing, writes nothing.
 *
 * @throws what `Engine.open` and `runJob` throw before a row is computed
 */
export async function dryRun({ engine, onRows, ...told }: DryRunOptions): Promise<DryRunReport> {
  const job = { ...told, output: new Writable() };
  checkWholeJob(job);
  const task = jobTaskOf(job);
  const formats = await jobFormats(job);
  const files = await checkJobFiles(formats.inputs.length > 0 ? { input: formats.inputs.map(({ path }) => path) } : {});
  const input = await JobInput.open(job, task.name, formats, files.input);
  const again = input.again ? () => input.read(false) : undefined;
  const subset = await RowSubset.of(job, again, task.options.signal);
  const { addon, requested, source, tokenizer, layout } = await layOutEngine(engine);
  const runs = new DryRuns({
    addon,
    source,
    tokenizer,
    rowLimit: { tokens: longestRowOf(layout), by: layout.grid.share?.attention ? 'keeper' : 'pages' },
  });
  const rows = chosen(input.read(false), input.rowReader(false), subset, onRows);
  const { classify, score, embed, generate = {} } = job;
  let taken: AsyncIterable<DryRow>;
  if (classify) taken = runs.answer('classify', rows, classify);
  else if (score) taken = runs.answer('score', rows, score);
  else if (embed) taken = runs.embed(rows, embed);
  else taken = runs.generate(rows, generate);
  const textOf = (tokens: readonly number[]): string =>
    source.tokenizer.kind === 'none' ? tokens.join(' ') : tokenizer.decode(tokens, { skipSpecial: false });
  const count = new DryCount(textOf);
  for await (const row of taken) count.add(row);
  const { policy } = requested.options;
  const predicted = predictedOf(layout.plan, typeof policy === 'object' ? policy : undefined, count);
  const stopped = new ErrorLimit(job.maxErrors, count.rows).exceeded(count.badRows, count.answers + count.badRows);
  return { ...count.report(), ...(stopped && { stopped }), plan: layout.plan.report, ...(predicted && { predicted }) };
}

/** The rows of the input that are in the subset, by their places. */
async function* chosen(
  rows: AsyncIterable<RowInput> | Iterable<RowInput>,
  read: (given: unknown) => RowInput,
  subset: RowSubset | undefined,
  onRows: DryRunOptions['onRows'],
): AsyncGenerator<RowInput, void, undefined> {
  let index = 0;
  for await (const given of rows) {
    if (subset?.endsBefore(index) === true) return;
    const row = read(given);
    if (subset?.has(row, index) !== false) yield { ...row, index };
    index += 1;
    if (index % TOLD_ROWS === 0) onRows?.(index);
  }
  onRows?.(index);
}

/**
 * Predicts what the plan does with rows that are as these are on average.
 * @param given the policy that is followed, where none was searched for
 */
function predictedOf(
  { request, report }: Plan,
  given: Policy | undefined,
  { answers, promptTokens: prompts, newTokens: most }: DryCount,
): Prediction | undefined {
  const { policy = given } = report;
  if (request === undefined || policy === undefined || answers === 0) return undefined;
  const mean = (sum: number): number => Math.max(1, Math.round(sum / answers));
  const promptTokens = mean(prompts);
  const { sharedPrefixTokens = 0 } = request.workload;
  return predict(
    {
      ...request,
      workload: {
        promptTokens,
        newTokens: mean(most),
        sharedPrefixTokens: Math.min(sharedPrefixTokens, promptTokens - 1),
        rows: answers,
      },
    },
    policy,
  );
}

/** Counts rows as they are taken in. */
class DryCount {
  rows = 0;
  answers = 0;
  badRows = 0;
  promptTokens = 0;
  newTokens = 0;
  private lastIndex = -1;
  private lastBad = -1;
  private readonly failed: Partial<Record<RowErrorCode, number>> = {};
  private readonly bad: BadRowReport[] = [];
  /** How many answers have a prompt of so many tokens. */
  private readonly lengths = new Map<number, number>();
  private max = 0;
  private longest: RowPlace | undefined;
  private readonly prompts: (RowPlace & { text: string })[] = [];

  constructor(private readonly decode: (tokens: readonly number[]) => string) {}

  add(row: DryRow): void {
    const { id, index } = row;
    const isNew = index !== this.lastIndex;
    if (isNew) this.rows += 1;
    this.lastIndex = index;
    if ('error' in row) {
      // Of a row that is asked several questions each may say so.
      if (index === this.lastBad) return;
      this.lastBad = index;
      const { code, message } = row.error;
      this.badRows += 1;
      this.failed[code] = (this.failed[code] ?? 0) + 1;
      if (this.bad.length < BAD_ROWS) this.bad.push({ id, index, code, message });
      return;
    }
    const { prompt, newTokens } = row;
    const { length } = prompt;
    this.answers += 1;
    this.promptTokens += length;
    this.newTokens += newTokens;
    this.lengths.set(length, (this.lengths.get(length) ?? 0) + 1);
    if (this.longest === undefined || length > this.max) [this.max, this.longest] = [length, { id, index }];
    if (isNew && this.prompts.length < PROMPTS) this.prompts.push({ id, index, text: this.decode(prompt) });
  }

  report(): Omit<DryRunReport, 'plan' | 'predicted'> {
    const { rows, answers, failed, bad, promptTokens: total, median, max, newTokens, longest, prompts } = this;
    return {
      rows,
      answers,
      failed,
      bad,
      promptTokens: { total, median, max, estimated: false },
      newTokens,
      ...(longest && { longest }),
      prompts,
    };
  }

  private get median(): number {
    let left = this.answers / 2;
    const lengths = [...this.lengths].sort(([a], [b]) => a - b);
    return lengths.find(([, answers]) => (left -= answers) <= 0)?.[0] ?? 0;
  }
}
