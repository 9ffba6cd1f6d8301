import { existsSync } from 'node:fs';
import { relative } from 'node:path';
import type { CommandContext } from './CommandContext.js';
import { EXIT, isBrokenPipe, withFlags } from './exitCodes.js';
import { requireFlags } from './flags/commandFlags.js';
import { engineOptions, planOptions } from './flags/engineFlags.js';
import { peerFiles } from './flags/peerFlags.js';
import { promptFiles, promptOptions } from './flags/promptFlags.js';
import type { RowJobFlags } from './flags/rowJobFlags.js';
import { checkedCascade } from './flags/cascadeFlags.js';
import { flagsOfShard, shardOf } from './flags/shardFlags.js';
import { endInTime, subsetOptions } from './flags/subsetFlags.js';
import { comesOnce, jobFormatsOf, queryOf, readOptions, tableOf, tableOptions } from './flags/tableFlags.js';
import { describeDryRun } from './dryRunReport.js';
import { describeColumns, describeRest, describeRun, rowProgress } from './generateReport.js';
import { inputOf, rowsOfQuery, type OnColumns } from './jobInput.js';
import { watchedEnd, watchEngine, watchJob } from './jobWatch.js';
import { describeTruth } from './truthReport.js';
import {
  checkJobFiles,
  checkJobInput,
  checkJobOptions,
  checkResponseFormat,
  databasePlace,
  type ConnectedPeers,
  dryRun,
  DUCKDB_BYTES,
  Engine,
  estimateRows,
  identifyModel,
  InterruptedError,
  isModelName,
  isPostgres,
  Job,
  KeptSample,
  MemoryBudget,
  peekRows,
  readModel,
  ReuseFile,
  serialPipeline,
  UsageError,
  type EngineOptions,
  type ExpectedRows,
  type GenerateOptions,
  type JobFormats,
  type JobOptions,
  type JobWatch,
  type JobSummary,
  type RowGenerator,
  type RowLookAhead,
  type RunStats,
  type Size,
  type Tokenizer,
  type TruthReport,
} from './library.js';
import { peerRing } from './peerRing.js';
import type { CommonOptions, RowTask } from './RowTask.js';
import { cascadeModels, describeCascade, openCascade, type OpenedCascade } from './openCascade.js';
import { pulledModel, showIdentifying, showOpening, showPlanning } from './openModel.js';
import { ProgressMeter } from './ProgressMeter.js';
import { RunWatch } from './RunWatch.js';
import { checkCommandPaths, writeStats } from './reportFiles.js';
import { checkStandardInput, checkStandardOutput, standardOutput } from './standardStreams.js';
import { TraceFile } from './TraceFile.js';

/** Runs a command over a file of rows as a job. */
export async function runRowJob(
  flagsGiven: RowJobFlags,
  flagNames: ReadonlySet<string>,
  context: CommandContext,
  asked: RowTask,
): Promise<void> {
  const givenFlags = checkedCascade(flagsGiven);
  if (givenFlags.json && !givenFlags.dryRun)
    throw new UsageError('--json goes with --dry-run, whose report it prints; results are in --output');
  requireFlags(givenFlags, 'model', 'input', ...(givenFlags.dryRun ? [] : (['output'] as const)));
  // Of what a dry run would write only the format is of interest.
  const given = givenFlags.dryRun ? withoutOutput(givenFlags) : givenFlags;
  endInTime(given, context);
  const shard = shardOf(given, process.env);
  checkJobOptions({ ...subsetOptions(given), ...(shard && { shard }) });
  const table = tableOf(given, (words) => context.say(words));
  if (table) checkJobOptions({ output: table, outputFormat: given.outputFormat });
  const placed = table === undefined ? given : { ...given, output: databasePlace(table).path };
  const flags = shard === undefined ? placed : await flagsOfShard(placed, shard);
  if (shard !== undefined)
    context.say(`shard ${shard.index} of ${shard.count}, counted from 0: results go to ${flags.output}`);
  if (flags.output === '-') checkStandardOutput();
  if (flags.input === '-') checkStandardInput((text) => context.say(text));
  const meter = new ProgressMeter(flags.progress, process.stderr);
  const formats = await jobFormatsOf(flags, table);
  const inputs = formats.inputs.map((file) => file.path);
  const files = {
    ...(comesOnce(flags.input) ? {} : { input: inputs }),
    ...(flags.output === '-' ? {} : { output: flags.output }),
  };
  const { resume, retryErrors, overwrite, errors } = flags;
  // What can be refused at once is refused before a model is fetched or read.
  const known = isModelName(flags.model);
  await checkPaths(flags, asked, inputs, known ? undefined : flags.model);
  const prompts = { ...(await promptOptions(flags, context.signal)), ...(await asked.read?.(context.signal)) };
  // Once it is known what answers are held to.
  if (prompts.responseFormat) await checkResponseFormat(prompts.responseFormat);
  if (flags.resultColumns) checkJobOptions({ resultColumns: flags.resultColumns, generate: prompts });
  await checkJobFiles({
    ...files,
    resume,
    retryErrors,
    overwrite,
    published: formats.published,
    ...(errors !== undefined && { errors }),
  });

  const say: OnColumns = (columns) => context.say(describeColumns(columns));
  const task = asked.task({ order: flags.order, ...prompts });
  checkJobOptions(task);
  const { classify, score } = task;
  const told = { task: asked.name, ownTexts: classify?.labels === undefined && score?.completions === undefined };
  const query = rowsOfQuery(flags, formats, prompts, told, say, context.signal);
  let job: Job | undefined;
  let engine: Engine | undefined;
  let cascade: OpenedCascade | undefined;
  let reuse: ReuseFile | undefined;
  let peers: ConnectedPeers | undefined;
  let trace: TraceFile | undefined;
  let stats: RunStats | undefined;
  let truth: TruthReport | undefined;
  let watch: JobWatch | undefined;
  const run = async (): Promise<void> => {
    const { model: Model, input: Input, output: Output } = flags;
    watch = await watchJob(flags.watch, `spillway ${asked.name}`, { Model, Input, Output }, context);
    const input = query ? await peekRows(query, prompts.promptTemplate) : inputOf(flags, formats, prompts, told, say);
    const common = { ...jobOptions(flags, formats, prompts, say), ...(table && { output: table }), input };
    await checkJobInput({ ...common, ...asked.task({ order: flags.order, ...prompts }) }, formats);
    if (flags.reuse !== undefined)
      reuse = await ReuseFile.open(flags.reuse, {
        signal: context.signal,
        onWarning: (message) => context.say(message),
      });
    const planned = await planOptions(flags);
    const ring = await peerRing(flags, context.signal);
    const foreseen = {
      ...(await Engine.check({ ...planned, ...engineOptions(flags, flags.model), ...ring?.options })),
      ...ring?.identity,
    };
    const cascaded = flags.cascade && (await cascadeModels(flags, context, meter));
    const models = cascaded ?? [{ path: await pulledModel(flags.model, context.signal, meter) }];
    const model = models[0]?.path ?? flags.model;
    if (known || cascaded) for (const { path } of models) await checkPaths(flags, asked, inputs, path);
    // The files of a cascade are read above.
    const modelFiles = cascaded ? undefined : (await readModel(model)).files;
    const { order, rowTimeout } = flags;
    const options: CommonOptions = {
      order,
      ...(rowTimeout === undefined ? {} : { rowTimeout }),
      ...prompts,
      signal: context.signal,
      onProgress: (progress) => {
        watch?.active(progress.rowsActive);
        meter.show('rows', rowProgress(progress, resultsOf(job, asked), job?.keptRows ?? 0));
      },
      onStats: (final) => {
        stats = final;
      },
      ...(flags.trace === undefined ? {} : { onTrace: (event) => trace?.add(event) }),
    };
    const { cpuMemory } = flags;
    // Without a cap nothing is reserved: the engine leaves a tenth of what is free, and DuckDB's process has no more.
    const cap =
      query !== undefined && (flags.database === undefined || !isPostgres(flags.database)) ? cpuMemory : undefined;
    const settings: EngineOptions = {
      ...planned,
      ...engineOptions(flags, model),
      ...ring?.options,
      ...(cap !== undefined && { memoryBudget: besideDuckDb(cap) }),
    };
    const expectRows =
      (rows?: number) =>
      async (tokenizer: Tokenizer): Promise<ExpectedRows | undefined> => {
        const expected = await estimateRows(inputs, tokenizer, {
          read: readOptions(flags, prompts, told),
          generate: { ...asked.expected, ...options },
          ...(rows !== undefined && { rows }),
        });
        return expected && flags.sharePrefixes === 'off' ? { ...expected, sharedPrefixTokens: 0 } : expected;
      };
    const engineFor = (rows?: number, others: Partial<EngineOptions> = {}): EngineOptions => ({
      ...settings,
      ...others,
      expectedRows: expectRows(rows),
      signal: context.signal,
      ...showPlanning(meter, context),
      ...showOpening(meter, context),
    });
    if (flags.dryRun) {
      const report = await dryRun({
        ...common,
        ...asked.task(options),
        engine: engineFor(),
        onRows: (done) => meter.show('rows', { done, total: undefined, words: 'read' }),
      });
      meter.stop();
      await context.print(flags.json ? `${JSON.stringify(report)}\n` : describeDryRun(report));
      if (flags.stats !== undefined) await writeStats(flags.stats, report);
      context.exitCode = report.stopped === true ? EXIT.stopped : report.bad.length > 0 ? EXIT.rowErrors : EXIT.fine;
      return;
    }
    const identity =
      modelFiles === undefined
        ? { cascade: true }
        : {
            modelFiles,
            resultIdentity: {
              ...foreseen,
              model: (await identifyModel(modelFiles, { signal: context.signal, onProgress: showIdentifying(meter) }))
                .hash,
            },
          };
    job = await Job.open({ ...common, ...(shard && { shard }), ...identity, ...asked.task(options) });
    const results = resultsOf(job, asked);
    watch?.expects(results, job.keptRows);
    const left = results === undefined ? undefined : Math.max(0, results - job.keptRows);
    const kept = new KeptSample(reuse);
    const store = flags.cascadeTarget === undefined ? reuse : kept;
    const answer = (answering: Engine): Partial<RowGenerator> =>
      asked.answer(answering, {
        ...(peers && { peers }),
        ...(flags.microBatches !== undefined && { microBatches: flags.microBatches }),
        ...(store && { reuse: store }),
        sharePrefixes: flags.sharePrefixes === 'on',
        lookAhead: lookAheadOf(flags),
        ...(flags.overlap === 'off' && { pipeline: serialPipeline }),
      });
    if (cascaded)
      cascade = await openCascade({
        flags:
          cap === undefined ? flags : { ...flags, cpuMemory: Math.max(1, new MemoryBudget(cap).bytes - DUCKDB_BYTES) },
        models: cascaded,
        job,
        context,
        open: (path, others) => Engine.open(engineFor(left, { model: path, ...others })),
        answer,
        task: asked.task(options),
      });
    else engine = await Engine.open(engineFor(left));
    kept.seal();
    if (flags.trace !== undefined) trace = new TraceFile(flags.trace, flags.resume);
    const start = performance.now();
    const running = cascade?.first ?? engine;
    if (engine) watchEngine(watch, flags.model, engine);
    if (engine) peers = await ring?.connect(engine);
    // What is labelled, scored or embedded is text as it stands, as are prompts of `/v1/completions`.
    const textsAreMessages = asked.name === 'generate' && formats.input.format.name !== 'openai-batch';
    const rawText = textsAreMessages && flags.chat === undefined && flags.system === undefined;
    const runWatch = new RunWatch(rawText, (result) => watch?.answered(result));
    const summary = await job.run(
      runWatch.engine(
        cascade?.engine ?? {
          resultIdentity: { ...engine?.resultIdentity, ...ring?.identity },
          ...(engine && answer(engine)),
        },
      ),
    );
    meter.stop();
    for (const words of runWatch.words(
      running?.tokenizer.hasChatTemplate === true,
      running?.source.tokenizer.kind !== 'none',
    ))
      context.say(withFlags(words, flagNames));
    if (summary.truth) context.say(describeTruth(summary.truth));
    truth = summary.truth;
    const byModel = describeCascade(stats);
    if (byModel !== undefined) context.say(byModel);
    context.say(describeRun(summary, stats, (performance.now() - start) / 1000, asked.expected.ignoreEos));
    if ((flags.limit ?? flags.sample) !== undefined && job.resultsFile !== undefined && summary.stopped !== true)
      context.say(
        `${flags.limit === undefined ? '--sample' : '--limit'}: --resume without it goes on with all other rows`,
      );
    context.exitCode = summary.stopped === true ? EXIT.stopped : hasErrors(summary) ? EXIT.rowErrors : EXIT.fine;
  };
  const done = allThrough(
    run,
    () => meter.stop(),
    () => peers?.close(),
    () => engine?.close(),
    () => cascade?.close(),
    () => job?.close(),
    () => query?.return(),
    () => reuse?.close(),
    () => trace?.close(),
    // A job that had nothing to do keeps the report of the run that did it.
    () =>
      flags.stats !== undefined &&
      stats !== undefined &&
      !(flags.resume && didNothing(stats) && existsSync(flags.stats)) &&
      writeStats(flags.stats, truth ? { ...stats, truth } : stats),
  );
  await watchedEnd(done, () => watch, context).catch((error: unknown) => {
    // Also where a peer went away, a task failed, or the disk is full: all but what is refused, and whoever reads the
    // output has seen enough.
    const interrupted = error instanceof InterruptedError;
    const isWorthWords = !(error instanceof UsageError) && !isBrokenPipe(error);
    if (job !== undefined && (interrupted || (job.finishedRows > 0 && isWorthWords)))
      context.say(
        describeRest(
          job.finishedRows,
          resultsOf(job, asked),
          job.resultsFile && fromHere(job.resultsFile),
          interrupted,
        ),
      );
    throw error;
  });
}

/** @throws UsageError beside a shard, of whose rows alone nothing is said */
function withoutOutput({
  errors: _errors,
  outputDatabase: _database,
  outputJournal: _journal,
  ...flags
}: RowJobFlags): RowJobFlags {
  if (flags.shard !== undefined)
    throw new UsageError(`--shard: found ${flags.shard} beside --dry-run, which says what all rows would take`);
  return { ...flags, output: '-', resume: false, retryErrors: false, overwrite: false };
}

/** A file that lies in the working folder or below, as it is called from there: so most people typed it. */
function fromHere(file: string): string {
  const path = relative('', file);
  return path.startsWith('..') ? file : path;
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
function checkPaths(
  flags: RowJobFlags,
  { files }: RowTask,
  inputs: readonly string[],
  model: string | undefined,
): Promise<void> {
  const { policy, hardware, output, errors, reuse, stats, trace } = flags;
  return checkCommandPaths({
    model,
    read: {
      input: inputs,
      policy: policy === 'auto' || policy === 'default' ? undefined : policy,
      hardware: hardware === 'this' ? undefined : hardware,
      ...promptFiles(flags),
      ...peerFiles(flags),
      ...files,
    },
    ...(!comesOnce(flags.input) && { patterns: flags.input }),
    output: output === '-' ? undefined : output,
    errors,
    kept: reuse,
    reports: { stats },
    trace,
  });
}

/**
 * Results that the job will have, where that is known; rows may say how many samples they want, which shows when they
 * are read.
 */
function resultsOf(job: Job | undefined, { samples = 1 }: RowTask): number | undefined {
  return job?.totalRows === undefined ? undefined : job.totalRows * samples;
}

function lookAheadOf({ lookAheadRows: rows, lookAheadBytes: bytes }: RowJobFlags): RowLookAhead {
  return { rows, ...(bytes !== undefined && { bytes }) };
}

function hasErrors({ failed, keptFailed }: JobSummary): boolean {
  return failed + keptFailed > 0;
}

function jobOptions(
  flags: RowJobFlags,
  formats: JobFormats,
  prompts: GenerateOptions,
  onColumns: OnColumns,
): Omit<JobOptions, 'input'> {
  const { input, database, output, carryFields, resume, retryErrors, overwrite } = flags;
  const isQuery = queryOf(input) !== undefined;
  // What comes once a job knows nothing of.
  const isData = isQuery || formats.input.format.carries === true || prompts.promptTemplate !== undefined;
  return {
    onColumns,
    ...(comesOnce(input) && {
      identity: { ...(isQuery && { input, database: database ?? null }), ...(isData && { parameters: 'named' }) },
    }),
    output: output === '-' ? standardOutput() : output,
    ...tableOptions(flags),
    ...subsetOptions(flags),
    ...(flags.truth !== undefined && { truth: flags.truth }),
    carryFields,
    resume,
    retryErrors,
    overwrite,
  };
}

/** The memory of the command, of which the process of DuckDB has its part. */
function besideDuckDb(cap: Size): MemoryBudget {
  const budget = new MemoryBudget(cap);
  budget.reserve(DUCKDB_BYTES, 'elsewhere');
  return budget;
}
