import { cancellable } from '../collections/cancellable.js';
import { InterruptedError } from '../errors/InterruptedError.js';
import { SpillwayError } from '../errors/SpillwayError.js';
import { UsageError } from '../errors/UsageError.js';
import type { AnyResult } from '../Results.js';
import type { RowInput } from '../Row.js';
import { severalAnswers } from '../rows/chunks.js';
import { rowsOfResult } from '../rows/rowsOfResult.js';
import { identifyModel } from '../model/identity/identifyModel.js';
import { checkRowGenerator, checkWholeJob } from './checkJobOptions.js';
import { DoneRows } from './record/DoneRows.js';
import { ErrorLimit } from './ErrorLimit.js';
import { fileFailure } from '../files/fileErrors.js';
import { filesOf, fingerprintFirstRow, readBefore, RowsDigest } from './record/fingerprint.js';
import { compressed } from './formats/compression.js';
import { resultColumns } from './formats/resultColumns.js';
import type { FinishedRow, WriteOptions } from './formats/RowFormat.js';
import { resultLine } from './formats/formatResult.js';
import { checkJobFiles } from './jobFiles.js';
import { jobPaths, settledOptions } from './jobPaths.js';
import { carriesInto, checkAnswerFormat, describeForm, isExact, jobFormats, type JobFormats } from './jobFormats.js';
import { JobInput } from './input/JobInput.js';
import type { JobOptions, JobSummary, RowGenerator } from './JobOptions.js';
import { jobTaskOf, type JobTask } from './jobTask.js';
import {
  checkSameJob,
  identityOf,
  recordOf,
  runOfRecord,
  withEngine,
  writeRecord,
  type JobIdentity,
  type JobRecord,
} from './record/jobRecord.js';
import { JobOutput, type OutputFile } from './output/JobOutput.js';
import { finishedResults } from './finishedResults.js';
import { isOfFiles, jobFailure } from './jobFailure.js';
import { JobRows } from './JobRows.js';
import { answersApart, type RowWatch } from './RowWatch.js';
import { drawnRows, RowSubset } from './RowSubset.js';
import { publishJournal } from './output/publishOutput.js';
import { checkTruthColumn, readsCarry, Truth } from './Truth.js';
import { WholeRows } from './output/WholeRows.js';
import { orderJournal } from './output/rewriteJournal.js';
import { rowsOfShard, settledShard } from './shards/Shard.js';
import { openSpecialWritable } from '../files/specialFiles.js';
import { type RowSink, StreamWriter } from '../files/StreamWriter.js';
import { tracedJob } from './tracedJob.js';
import { jobWriteOptions } from './jobWriteOptions.js';
import { type DatabasePlace, isDatabaseOutput } from './database/DatabaseOutput.js';
import { type FileJobOptions, placedJob } from './database/placedJob.js';
import { completePart } from './shards/completePart.js';
import { FedJournal } from './database/FedJournal.js';
import { type FeedOptions, TableFeed } from './database/TableFeed.js';

/**
 * One run over an input into an output, such that any number of runs, however they end, leave each row in the output
 * exactly once.
 *
 * `Job.open` checks all that can be checked without the engine, locks the output (`OUTPUT.lock`) and reads what it
 * holds; nothing is changed. `run` goes through the input once; with the first row the output is begun and
 * `OUTPUT.job.json` keeps the run's fingerprint. `close` lets go of the files.
 */
export class Job implements AsyncDisposable {
  #sink: RowSink | undefined;
  #record: JobRecord | undefined;
  /** The digest of an input that comes once, into an output that can be resumed. */
  #digest: RowsDigest | undefined;
  #started = false;
  /** True where all rows are written. */
  #whole = false;
  readonly #begun = new Date();
  /** The feed that brings results into a table of a database. */
  #feed: TableFeed | undefined;
  #written = 0;

  private constructor(
    private readonly options: FileJobOptions,
    private readonly task: JobTask,
    /** Undefined where the output is a stream, pipe or device. */
    private readonly file: OutputFile | undefined,
    private readonly input: JobInput,
    private readonly formats: JobFormats,
    private readonly subset: RowSubset | undefined,
    /** The place of results that go to a table of a database: the file is their journal. */
    private readonly place: DatabasePlace | undefined,
  ) {}

  /**
   * Rows of the input, of the shard, or of a limit or sample, where it is a regular file; else, and of a sample that is
   * a share, not known before the end.
   */
  get totalRows(): number | undefined {
    const [{ rows }, { shard }] = [this.input, this.options];
    if (this.subset) return this.subset.rowsOf(rows);
    return rows === undefined || shard === undefined ? rows : rowsOfShard(rows, settledShard(shard));
  }

  /** Results that stand in the output and are not made again. */
  get keptRows(): number {
    return this.file?.earlier?.done.size ?? 0;
  }

  /** The time that chat templates are told. */
  get #now(): Date | string | null {
    const begun = this.options.shard === undefined ? (this.file?.record.begun ?? this.#begun) : null;
    return this.task.options.now ?? begun;
  }

  /**
   * The engine's `resultIdentity`, as the run that began the output was told of it; undefined where this run begins it.
   */
  get begunWith(): Readonly<Record<string, unknown>> | undefined {
    return this.file?.earlier && this.file.files.before?.engine;
  }

  /** Results that stand in the output by now: those that were kept, and those of this run. */
  get finishedRows(): number {
    return this.keptRows + this.#written;
  }

  /**
   * Collects the facts that decide the job's results, and are the same for all shards: engine, options, input.
   * Undefined where the output is a stream. @param engine its `resultIdentity`, once it is known
   */
  identity(engine?: object): JobIdentity | undefined {
    return this.file && identityOf(withEngine(this.file.record, engine));
  }

  /**
   * Where results stand while the job runs: the output, or the journal beside it. Undefined for a stream, which takes
   * them once.
   */
  get resultsFile(): string | undefined {
    return this.file?.files.journalOf(this.file.record).path;
  }

  /**
   * @throws UsageError: an option is wrong; the output exists, is in use, or was begun by a different run; a file would
   * be lost
   * @throws JobFileError: a file cannot be read or written, or the output holds something else than results
   * @throws InterruptedError when `generate.signal` fires
   */
  static async open(given: JobOptions): Promise<Job> {
    checkWholeJob(given);
    const { options, place } = await placedJob(given);
    const { output, modelFiles = [], resultIdentity = {}, errors } = options;
    const task = jobTaskOf(options);
    const { signal } = task.options;
    const { delimiter: _delimiter, ...others } = options;
    // A part's may be for what is made of it.
    const formats = await jobFormats(options.shard === undefined ? options : others);
    checkAnswerFormat(task.name, formats, severalAnswers(task.options));
    const paths = await jobPaths(options, formats);
    const files = await checkJobFiles(paths);
    const opened = await JobInput.open(options, task.name, formats, files.input);
    const subset = await RowSubset.of(options, opened.again ? () => opened.read(false) : undefined, signal);
    if (typeof output !== 'string' || files.output === 'special') {
      if (errors !== undefined)
        throw new UsageError('`errors` needs a regular file as output: a stream takes all results');
      return new Job(options, task, undefined, opened, formats, subset, undefined).#checked();
    }

    const model = modelFiles.length > 0 ? await identifyModel(modelFiles, { signal }) : undefined;
    const settled = settledOptions(options, task, formats, opened);
    const locked = await JobOutput.lock(
      {
        output,
        ...(errors !== undefined && { errors }),
        published: formats.published,
        form: describeForm(options, formats),
      },
      signal,
    );
    try {
      // Again, as another process may have been at work until we had the lock.
      await checkJobFiles(paths);
      const file = await locked.open(options.resume === true);
      const now = recordOf(
        file.recorded,
        model,
        resultIdentity,
        settled,
        opened.fingerprint ?? fingerprintFirstRow(undefined),
      );
      const begun = file.before?.begun ?? new Date().toISOString();
      const record = {
        ...now,
        ...(file.before && { run: file.before.run }),
        ...(task.options.now === undefined && { begun }),
      };
      // Of an engine that is still to come some is known. Of two streams the first rows are compared, as soon as there
      // is one.
      const known = [file.before?.input, now.input].some(
        (input) => input !== undefined && filesOf(input) !== undefined,
      );
      const longer = file.before !== undefined && (await opened.continues(file.before.input));
      if (file.before !== undefined)
        checkSameJob(output, file.before, record, { input: known && !longer, engine: false });
      const earlier = options.resume === true ? await file.scan(options.retryErrors ?? false, signal) : undefined;
      const job = new Job(options, task, { files: file, record, earlier, longer }, opened, formats, subset, place);
      if (place && isDatabaseOutput(given.output))
        job.#feed = await TableFeed.open(given.output, place, job.#feedOptions(record, file));
      return job.#checked();
    } catch (error) {
      locked.release();
      throw error;
    }
  }

  /**
   * Draws rows of the whole input, each as likely as any other, as `sample` does; a row is drawn whether it is done or
   * not.
   * @throws UsageError for an input that comes once; InterruptedError; whatever reading throws
   */
  drawn(rows: number, seed = 0): Promise<RowInput[]> {
    return drawnRows(rows, seed, this.input.again ? () => this.input.read(false) : undefined, this.task.options.signal);
  }

  /**
   * Sends every row that is not done to the engine and writes its result. Once for a job.
   * @throws InterruptedError when `generate.signal` fires; UsageError when a resumed input turns out to be another one;
   * JobFileError, also for an input that changed since it was counted; and whatever the engine throws. What was
   * finished is written and intact in each case, once the job is closed.
   * @param watch looks on as rows go to the engine
   */
  async run(engine: RowGenerator, watch?: RowWatch): Promise<JobSummary> {
    checkRowGenerator(engine);
    return tracedJob(this.task.name, () => this.#run(engine, watch));
  }

  async #run(engine: RowGenerator, watch: RowWatch | undefined): Promise<JobSummary> {
    if (this.#started) throw new UsageError('a job runs once; open another one to go on');
    this.#started = true;
    const record = this.file && withEngine(this.file.record, engine.resultIdentity);
    const before = this.file?.earlier && this.file.files.before;
    if (record && this.file && before) checkSameJob(this.file.files.path, before, record, { input: false });
    this.#record = record;
    // Rows that failed may be others by now, where they are tried again.
    this.#digest =
      this.file && !this.input.again
        ? new RowsDigest(this.options.retryErrors === true ? undefined : readBefore(before?.input))
        : undefined;
    const { signal, samples } = this.task.options;
    const shard = this.options.shard && settledShard(this.options.shard);
    const source = new JobRows(
      this.file?.earlier?.done ?? new DoneRows(),
      samples,
      shard,
      this.subset,
      async (first) => {
        this.#sink = await this.#begin(first);
      },
      this.#digest,
      this.input.rowReader(readsCarry(this.options) || this.#writesTables),
      watch,
    );
    const counts = { done: 0, failed: 0, stopped: false };
    const truth = Truth.of(this.options, this.task.options, this.formats, this.#joins);
    const earlier = this.file?.earlier;
    const keptFailed = this.options.retryErrors === true ? 0 : (earlier?.failed ?? 0);
    const limit = new ErrorLimit(this.options.maxErrors, this.totalRows);
    // A file is made of results that are in order.
    const whole =
      this.file === undefined && this.formats.output.format.joinsSamples === true ? new WholeRows() : undefined;
    const input = cancellable(this.#readInput());
    // An engine that is left gives up what it has finished and holds for a row before it: it is told to end instead.
    const ending = new AbortController();
    const end = (reason?: unknown): void => {
      ending.abort(reason);
      input.abort({ error: new InterruptedError(reason) });
    };
    const results = async function* (rows: AsyncIterable<AnyResult>): AsyncGenerator<AnyResult, void, undefined> {
      let failure: { readonly error: unknown } | undefined;
      try {
        for await (const answer of rows) {
          const received = truth?.judge(source.receive(answer)) ?? source.receive(answer);
          for (const result of whole?.add(answer.index, received, source.isOpen(answer.index)) ?? received) {
            counts.done += 1;
            yield result;
          }
          if (counts.stopped) continue;
          counts.stopped = limit.exceeded(keptFailed + counts.failed, (earlier?.done.size ?? 0) + counts.done);
          if (counts.stopped) end();
        }
      } catch (error) {
        failure = { error };
      }
      for (const result of whole?.rest() ?? []) {
        counts.done += 1;
        yield result;
      }
      if (failure && !counts.stopped) throw failure.error;
    };
    const onAbort = (): void => end(signal?.reason);
    signal?.addEventListener('abort', onAbort);
    try {
      if (signal?.aborted === true) onAbort();
      const sent = truth?.taken(source.send(input)) ?? source.send(input);
      const answers = answersApart(sent, watch, (rows) => this.task.answer(engine, rows, ending.signal, this.#now));
      await this.#write(results(answers), counts, end);
      if (!counts.stopped) source.checkAnswered();
    } catch (error) {
      const reason = jobFailure(error, source.failure);
      // What is refused is not what the next run has to come by.
      if (reason instanceof UsageError) this.#digest = undefined;
      throw signal?.aborted === true && !isOfFiles(reason) ? new InterruptedError(signal.reason) : reason;
    } finally {
      signal?.removeEventListener('abort', onAbort);
    }
    await this.#closeSink();
    const { done, failed, stopped } = counts;
    if (!stopped) await this.#feed?.complete();
    if (this.file) {
      // What an earlier run had finished ahead of its turn, or done again, stood where the run had left it, so that
      // nothing was lost.
      const outOfTurn = earlier?.inOrder === false || source.overtaken;
      const byCompletion = this.task.options.order === 'completion';
      const { files, record } = this.file;
      // Parts of shards are put together as they stand.
      const ordered = files.published || (shard !== undefined && !stopped);
      if (ordered ? outOfTurn || byCompletion : outOfTurn && !byCompletion && !stopped)
        await orderJournal(files.journalOf(record), signal);
      if (!stopped) await this.input.checkUnchanged();
      if (files.published) await this.#publish(this.file, done + this.keptRows);
      if (shard !== undefined && !stopped)
        await completePart(files, this.#record ?? record, {
          rows: source.rows,
          options: this.#writeOptions(),
          table: this.input.again ? undefined : this.input.table,
        });
    } else if (!stopped) await this.input.checkUnchanged();
    this.#whole = !stopped && this.subset === undefined;
    return {
      rows: source.ownRows,
      done,
      failed: failed + (this.#feed?.refused ?? 0),
      kept: this.keptRows,
      keptFailed,
      ...(stopped && { stopped }),
      ...(truth && { truth: truth.report() }),
    };
  }

  /** Writes out what is pending and lets go of the files. Idempotent. @throws JobFileError */
  async close(): Promise<void> {
    this.#started = true;
    try {
      await this.#closeSink();
    } finally {
      await this.#feed?.close();
      this.file?.files.release(this.#whole);
    }
  }

  [Symbol.asyncDispose] = (): Promise<void> => this.close();

  async #closeSink(): Promise<void> {
    const sink = this.#sink;
    this.#sink = undefined;
    await sink?.close();
    // What was read is what a run that goes on has to read first. Without it less is known: no reason to fail.
    const [record, read] = [this.#record, this.#digest?.read];
    if (!sink || !this.file || record?.input.kind !== 'stream' || !read || read.rows === 0) return;
    this.#record = { ...record, input: { ...record.input, read } };
    await writeRecord(this.file.files.path, this.#record).catch(() => undefined);
  }

  /** The rows, with what their results need beside the prompt. */
  #readInput(): AsyncIterable<RowInput> | Iterable<RowInput> {
    const { output } = this.formats;
    const carries = carriesInto(this.formats, output);
    const carried = carries && !this.#joins;
    // A journal is lines of JSON, whatever becomes of it.
    return this.input.read(
      readsCarry(this.options) || carried,
      carried && this.file === undefined && isExact(this.formats, output),
      carries && this.#joins ? (isExact(this.formats, output) ? 'exact' : 'readable') : undefined,
    );
  }

  get #writesTables(): boolean {
    return [this.formats.output, this.formats.errors].some((file) => file?.format.carries === true);
  }

  /** Tells whether the values that go with a result are read from the input again, when the output is written. */
  get #joins(): boolean {
    return this.file !== undefined && this.place === undefined && this.input.again;
  }

  /**
   * Before any work is done: as far as the columns of the input are known, and again with the first row, for what comes
   * once has its columns then.
   * @throws UsageError for names of result columns that a table has already
   */
  #checked(first?: RowInput): this {
    const columns = this.input.table?.columns ?? Object.keys(first?.carry ?? {});
    if (this.#writesTables) resultColumns(columns, this.#writeOptions());
    if (this.options.truth !== undefined && this.input.table) checkTruthColumn(this.options.truth, columns);
    return this;
  }

  /**
   * Sends results where they go, as they come, and what is finished by then where they end with an error.
   * @param end ends the run, where nothing can be written any more: a journal keeps what comes after that for when it
   * is closed
   */
  async #write(
    results: AsyncGenerator<AnyResult, void, undefined>,
    counts: { failed: number },
    end: () => void,
  ): Promise<void> {
    const { format, compression } = this.formats.output;
    let failure: { readonly error: unknown } | undefined;
    const finished = finishedResults(results, (error) => {
      failure ??= { error };
    });
    const carried = async function* (this: Job): AsyncGenerator<FinishedRow, void, undefined> {
      for await (const result of finished) {
        if (result.error) counts.failed += 1;
        this.#written += 1;
        for (const row of rowsOfResult(result)) yield { result: row, carry: row.carry };
      }
    };
    if (this.file === undefined && this.formats.published) {
      const encoded = format.encode(carried.call(this), this.#writeOptions());
      for await (const chunk of compressed(encoded, compression, 'output')) await this.#sink?.write(chunk);
    } else {
      for await (const result of finished) {
        const formatted = await resultLine(result);
        try {
          await this.#sink?.write(formatted.line);
          this.#written += 1;
          if (formatted.failed) counts.failed += 1;
        } catch (error) {
          failure ??= { error };
          end();
        }
      }
    }
    if (failure) throw failure.error;
  }

  /** Writes the output, and what failed, from the journal, in which so many results stand. @throws JobFileError */
  async #publish({ files, record }: OutputFile, results: number): Promise<void> {
    const feed = this.#feed;
    await publishJournal(files.journalOf(record), results, this.task.options.signal, {
      path: files.path,
      errors: files.errors,
      formats: this.formats,
      input: this.#joins ? this.input : undefined,
      options: this.#writeOptions(false),
      ...(feed && { refusedBy: (result) => feed.told(result) }),
    });
  }

  /** @param keyed whether for a table of a database, whose rows have a key */
  #writeOptions(keyed = this.place !== undefined): WriteOptions {
    const { options, task, formats, input, place } = this;
    return jobWriteOptions({ options, task, formats, input }, place?.name, keyed);
  }

  #feedOptions(record: JobRecord, files: JobOutput): FeedOptions {
    return {
      job: record.run,
      journal: files.journalOf(record),
      options: this.#writeOptions(),
      withoutErrors: this.formats.errors !== undefined,
      signal: this.task.options.signal,
      earlierRun: this.options.overwrite === true ? runOfRecord(files.path) : undefined,
    };
  }

  /** Makes the output ready for results: the first change on disk. An empty input has no first row. */
  async #begin(first: RowInput | undefined): Promise<RowSink> {
    const { output } = this.options;
    const { signal } = this.task.options;
    this.#checked(first);
    if (typeof output !== 'string') return new StreamWriter(output, 'output', { signal });
    try {
      if (this.file === undefined) {
        const stream = await openSpecialWritable(output, signal);
        return new StreamWriter(stream, output, { end: true, signal });
      }
      const { input, ...record } = this.#record ?? this.file.record;
      const before = this.file.earlier && this.file.files.before;
      const whole = {
        ...record,
        input: this.input.fingerprint === undefined ? fingerprintFirstRow(first, this.#digest?.before) : input,
      };
      this.#record = whole;
      if (before) checkSameJob(this.file.files.path, before, whole, { input: !this.file.longer });
      if (this.options.overwrite === true) await this.#feed?.forget();
      const journal = await this.file.files.begin(whole, this.file.earlier, this.options.retryErrors ?? false);
      return this.#feed === undefined ? journal : await FedJournal.begin(journal, this.#feed);
    } catch (error) {
      if (error instanceof SpillwayError) throw error;
      throw fileFailure(output, 'written', error);
    }
  }
}
