import { existsSync } from 'node:fs';
import { Option, type Command } from 'commander';
import type { CommandContext } from './CommandContext.js';
import { EXIT, withFlags } from './exitCodes.js';
import { addEngineFlags, addModelFlag, engineOptions, type EngineFlags } from './flags/modelFlags.js';
import { addTableFlags, comesOnce, jobFormatsOf, queryOf, readOptions, tableOptions, type TableFlags } from './flags/tableFlags.js';
import { decimal, path, size, wholeNumber } from './flags/parsers.js';
import { addMemoryFlags, addPlanFlags, planOptions, type PlanFlags } from './flags/planFlags.js';
import { addFormatFlags, formatFiles, formatOptions, type FormatFlags } from './flags/formatFlags.js';
import { addPromptFlags, promptFiles, promptOptions, type PromptFlags } from './flags/promptFlags.js';
import { addSamplingFlags, type SamplingFlags } from './flags/samplingFlags.js';
import { expectedRows } from './expectedRows.js';
import { describeEnginePlan, describeRest, describeRun, rowProgress } from './generateReport.js';
import {
  checkedOptions, checkJobFiles, Engine, foreseenIdentity, identifyModel, InterruptedError, isModelName, Job, readModel, readRows, readSql, ReuseFile, ROW_SECONDS, ROWS_AHEAD, serialPipeline,
  type EngineOptions, type GenerateOptions, type JobFormats, type JobOptions, type JobSummary, type RowLookAhead, type RunStats, type Tokenizer,
} from './library.js';
import { pulledModel, showIdentifying, showOpening, showProfiling } from './openModel.js';
import { ProgressMeter, type ProgressMode } from './ProgressMeter.js';
import { RunWatch } from './RunWatch.js';
import { checkCommandPaths, writeStats } from './reportFiles.js';
import { checkStandardInput } from './standardInput.js';
import { checkStandardOutput } from './standardOutput.js';
import { TraceFile } from './TraceFile.js';
import { addSwitch, requireFlags } from './flags/commandFlags.js';

interface GenerateFlags extends EngineFlags, SamplingFlags, PromptFlags, FormatFlags, PlanFlags, TableFlags {
  readonly carryFields: boolean;
  readonly sharePrefixes: 'on' | 'off';
  readonly lookAheadRows: number;
  readonly lookAheadBytes?: number;
  readonly reuse?: string;
  readonly resume: boolean;
  readonly retryErrors: boolean;
  readonly overwrite: boolean;
  readonly order: 'input' | 'completion';
  readonly rowTimeout?: number;
  readonly stats?: string;
  readonly trace?: string;
  readonly progress: ProgressMode;
}

const EXAMPLES = `
Examples:
  spillway generate --model smollm2-135m-instruct \\
    --input questions.txt --output answers.jsonl
  spillway generate --model smollm2-135m-instruct --input tickets.csv \\
    --output answers.csv --columns prompt=question --max-new-tokens 32
  spillway generate ... --resume        goes on with a run that was cut off`;

export function addGenerate(program: Command, context: CommandContext): void {
  const command = program.command('generate').description('Answers each row of a file of prompts. A run that was cut off goes on with --resume.');
  command.optionsGroup('Model and files:');
  addModelFlag(command);
  command.addOption(new Option('--input <file|->', 'necessary; rows with one of prompt, messages, tokens each, as lines of JSON or as a table; a pattern such as "data/*.parquet" stands for several files; - is stdin; sql:QUERY is a query').argParser(path));
  command.addOption(new Option('--output <file|->', 'necessary; results; - is stdout').argParser(path));
  addTableFlags(command);
  addSwitch(command, '--carry-fields', "other fields of a row go into its result's `row`");
  command.addOption(new Option('--share-prefixes <on|off>', 'what prompts begin with alike is computed once').choices(['on', 'off']).default('on'));
  command.option('--look-ahead-rows <n>', 'rows that are read beyond those for which there are places: what begins alike among them is brought together', wholeNumber(ROWS_AHEAD.least, ROWS_AHEAD.most), ROWS_AHEAD.fallback);
  command.option('--look-ahead-bytes <size>', 'most that all rows that wait may take (default: 32MiB)', size);
  command.addOption(new Option('--reuse <file>', 'answers that last: rows that it has from earlier runs are not computed, and it gets those that are (default: none)').argParser(path));
  addPromptFlags(command);
  addFormatFlags(command);
  addSamplingFlags(command);
  addEngineFlags(command);
  addMemoryFlags(command, true);
  addPlanFlags(command);
  command.optionsGroup('Job:');
  addSwitch(command, '--resume', 'go on with an output that exists: its rows are not done again');
  addSwitch(command, '--retry-errors', 'with --resume: do error rows again; they then stand at the end (else they are kept)');
  addSwitch(command, '--overwrite', 'begin anew over an output that exists (else it is refused)');
  command.addOption(new Option('--order <order>', 'of the results').choices(['input', 'completion']).default('input'));
  command.option('--row-timeout <seconds>', 'a row that takes longer, from when it is admitted, ends as an error (default: any may)', decimal(ROW_SECONDS));
  command.addOption(new Option('--stats <file>', 'write what the run did, as one JSON document (default: none)').argParser(path));
  command.addOption(new Option('--trace <file>', 'write every task as a Chrome trace, for Perfetto (default: none)').argParser(path));
  command.addOption(new Option('--progress <when>', 'on stderr; auto: if it is a terminal').choices(['auto', 'on', 'off']).default('auto'));
  command.addHelpText('after', EXAMPLES);
  command.action((flags: GenerateFlags) => generate(flags, new Set(command.options.map(({ long }) => long ?? '')), context));
}

async function generate(flags: GenerateFlags, flagNames: ReadonlySet<string>, context: CommandContext): Promise<void> {
  requireFlags(flags, 'model', 'input', 'output');
  if (flags.output === '-') checkStandardOutput();
  if (flags.input === '-') checkStandardInput((text) => context.say(text));
  const meter = new ProgressMeter(flags.progress, process.stderr);
  const formats = await jobFormatsOf(flags);
  const inputs = formats.inputs.map((file) => file.path);
  const files = {
    ...(comesOnce(flags.input) ? {} : { input: inputs }),
    ...(flags.output === '-' ? {} : { output: flags.output }),
  };
  const { resume, retryErrors, overwrite, errors } = flags;
  // What can be refused at once is refused before a model is fetched or read.
  const known = isModelName(flags.model);
  await checkPaths(flags, inputs, known ? undefined : flags.model);
  const prompts = { ...(await promptOptions(flags, context.signal)), ...(await formatOptions(flags, context.signal)) };
  await checkJobFiles({ ...files, resume, retryErrors, overwrite, published: formats.published, ...(errors !== undefined && { errors }) });

  let job: Job | undefined;
  let engine: Engine | undefined;
  let reuse: ReuseFile | undefined;
  let trace: TraceFile | undefined;
  let stats: RunStats | undefined;
  const run = async (): Promise<void> => {
    if (flags.reuse !== undefined) reuse = await ReuseFile.open(flags.reuse, { signal: context.signal, onWarning: (message) => context.say(message) });
    const planned = await planOptions(flags);
    await checkedOptions({ ...planned, ...engineOptions(flags, flags.model) });
    const model = await pulledModel(flags.model, context.signal, meter);
    if (known) await checkPaths(flags, inputs, model);
    const { files: modelFiles } = await readModel(model);
    const options: GenerateOptions = {
      ...rowOptions(flags),
      ...prompts,
      signal: context.signal,
      onProgress: (progress) => meter.show('rows', rowProgress(progress, resultsOf(job, flags), job?.keptRows ?? 0)),
      onStats: (final) => {
        stats = final;
      },
      ...(flags.trace === undefined ? {} : { onTrace: (event) => trace?.add(event) }),
    };
    const settings: EngineOptions = { ...planned, ...engineOptions(flags, model) };
    const openEngine = (rows: number | undefined): Promise<Engine> => Engine.open({
      ...settings,
      expectedRows: async (tokenizer: Tokenizer) => {
        const expected = await expectedRows(inputs, readOptions(flags, prompts), options, tokenizer, rows);
        return expected && flags.sharePrefixes === 'off' ? { ...expected, sharedPrefixTokens: 0 } : expected;
      },
      signal: context.signal,
      onProfile: showProfiling(meter, context),
      onPlan: (plan) => {
        for (const note of plan.notes ?? []) context.say(note);
        const words = describeEnginePlan(plan);
        if (words !== undefined) context.say(words);
      },
      ...showOpening(meter, context),
    });
    const { hash } = await identifyModel(modelFiles, { signal: context.signal, onProgress: showIdentifying(meter) });
    job = await Job.open({ ...jobOptions(flags, formats, prompts), modelFiles, resultIdentity: foreseenIdentity(settings, hash), generate: options });
    const results = resultsOf(job, flags);
    engine = await openEngine(results === undefined ? undefined : results - job.keptRows);
    if (flags.trace !== undefined) trace = new TraceFile(flags.trace, flags.resume);
    const start = performance.now();
    const running = engine;
    const watch = new RunWatch(flags.chat === undefined && flags.system === undefined);
    const summary = await job.run({
      resultIdentity: running.resultIdentity,
      generate: (rows, rowsOptions) => watch.results(running.generate(watch.rows(rows), {
        ...rowsOptions, ...(reuse && { reuse }), sharePrefixes: flags.sharePrefixes === 'on', lookAhead: lookAheadOf(flags), ...(flags.overlap === 'off' && { pipeline: serialPipeline }),
      })),
    });
    meter.stop();
    for (const words of watch.words(running.tokenizer.hasChatTemplate, running.source.tokenizer.kind !== 'none')) context.say(withFlags(words, flagNames));
    context.say(describeRun(summary, stats, (performance.now() - start) / 1000));
    context.exitCode = hasErrors(summary) ? EXIT.rowErrors : EXIT.fine;
  };
  const done = allThrough(
    run,
    () => meter.stop(),
    () => engine?.close(),
    () => job?.close(),
    () => reuse?.close(),
    () => trace?.close(),
    // A job that had nothing to do keeps the report of the run that did it.
    () => flags.stats !== undefined && stats !== undefined && !(flags.resume && didNothing(stats) && existsSync(flags.stats)) && writeStats(flags.stats, stats),
  );
  await done.catch((error: unknown) => {
    if (error instanceof InterruptedError && job !== undefined) context.say(describeRest(job.finishedRows, resultsOf(job, flags), job.resultsFile));
    throw error;
  });
}

function didNothing({ rows, tokens }: RunStats): boolean {
  return rows.done + rows.failed + tokens.prompt === 0;
}

/** Takes every step, also after one that failed. @throws what failed first */
async function allThrough(...steps: readonly (() => unknown)[]): Promise<void> {
  const failures: unknown[] = [];
  for (const step of steps) {
    try {
      await step();
    } catch (error) {
      failures.push(error);
    }
  }
  if (failures.length > 0) throw failures[0];
}

/** @param model as a path, once that is known */
function checkPaths(flags: GenerateFlags, inputs: readonly string[], model: string | undefined): Promise<void> {
  const { policy, hardware, output, errors, reuse, stats, trace } = flags;
  return checkCommandPaths({
    model,
    read: {
      input: inputs,
      policy: policy === 'auto' || policy === 'default' ? undefined : policy,
      hardware: hardware === 'this' ? undefined : hardware,
      ...promptFiles(flags),
      ...formatFiles(flags),
    },
    output: output === '-' ? undefined : output,
    errors,
    kept: reuse,
    reports: { stats },
    trace,
  });
}

/** Results that the job will have, where that is known; rows may say how many samples they want, which shows when they are read. */
function resultsOf(job: Job | undefined, { samples = 1 }: GenerateFlags): number | undefined {
  return job?.totalRows === undefined ? undefined : job.totalRows * samples;
}

function lookAheadOf({ lookAheadRows: rows, lookAheadBytes: bytes }: GenerateFlags): RowLookAhead {
  return { rows, ...(bytes !== undefined && { bytes }) };
}

function hasErrors({ failed, keptFailed }: JobSummary): boolean {
  return failed + keptFailed > 0;
}

function rowOptions(flags: GenerateFlags): GenerateOptions {
  const { maxNewTokens, temperature, topP, topK, minP, repetitionPenalty, seed, samples, stop, ignoreEos, logprobs, order, rowTimeout } = flags;
  return {
    maxNewTokens, temperature, topP, topK, minP, repetitionPenalty, seed, ignoreEos, order,
    ...(stop === undefined ? {} : { stop }),
    ...(samples === undefined ? {} : { samples }),
    ...(rowTimeout === undefined ? {} : { rowTimeout }),
    ...(logprobs === undefined ? {} : { logprobs }),
  };
}

function jobOptions(flags: GenerateFlags, formats: JobFormats, prompts: GenerateOptions): JobOptions {
  const { output, carryFields, resume, retryErrors, overwrite } = flags;
  return {
    input: inputOf(flags, formats, prompts),
    ...(queryOf(flags.input) === undefined ? {} : { identity: { input: flags.input, database: flags.database ?? null } }),
    output: output === '-' ? process.stdout : output,
    ...tableOptions(flags),
    carryFields,
    resume,
    retryErrors,
    overwrite,
  };
}

function inputOf({ input, database, carryFields, ...flags }: GenerateFlags, { input: read, inputs, output }: JobFormats, prompts: GenerateOptions): JobOptions['input'] {
  const query = queryOf(input);
  if (query !== undefined) {
    const { columns, templated = false } = readOptions({ input, ...flags }, prompts);
    return readSql(query, { ...(database !== undefined && { database }), ...(columns && { columns }), templated, carryFields: carryFields || output.format.carries === true });
  }
  if (input !== '-') return inputs.map((file) => file.path);
  // What an answer to a request says of it.
  const carried = read.format.carries === 'exact' && output.format === read.format;
  return readRows(process.stdin, { ...readOptions({ input, ...flags }, prompts), carryFields: carryFields || carried, name: 'standard input' });
}
