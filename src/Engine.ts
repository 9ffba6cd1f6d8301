import { isObservable, lastValueFrom, type Observable } from 'rxjs';
import type { NativeRuntime } from './bindings/Addon.js';
import { loadAddon } from './bindings/loadAddon.js';
import { checkedOptions } from './engine/open/checkedOptions.js';
import { deviceOf, poolOf } from './engine/open/deviceOf.js';
import { Grammars } from './engine/grammar/Grammars.js';
import { loadWeights } from './engine/store/loadWeights.js';
import { openRuntime, type SettledOptions } from './engine/open/openRuntime.js';
import { AnswerRuns, type ReadOfRun } from './engine/rows/AnswerRuns.js';
import type { AnswerKind, Answers } from './engine/rows/Answers.js';
import { identityOfEngine } from './engine/open/identityOfEngine.js';
import { resultIdentityKey, type ResultIdentity } from './engine/open/resultIdentity.js';
import { rowsToCome } from './engine/open/rowsToCome.js';
import { Outlook, type SeenRun } from './engine/calibration/Outlook.js';
import { BLOCK_SCHEDULES, diagonalBlock } from './engine/schedules/blockSchedules.js';
import { defaultWindow } from './engine/execution/defaultWindow.js';
import { FollowingRun } from './engine/execution/FollowingRun.js';
import type { NativeDevice } from './engine/execution/NativeDevice.js';
import { RowFeed } from './engine/execution/RowFeed.js';
import { Run } from './engine/execution/Run.js';
import type { RunRow } from './engine/execution/RunRow.js';
import type { RunRecorder } from './engine/execution/RunRecorder.js';
import type { SquareRunSetup } from './engine/execution/SquareRun.js';
import { withSchema } from './engine/grammar/zodSchema.js';
import type { Movement } from './engine/memory/movement.js';
import type { PagePool } from './engine/memory/PagePool.js';
import { movementOf } from './engine/open/movementOf.js';
import { recorderOf, type RecordedOptions } from './engine/calibration/recorderOf.js';
import { placementOf } from './engine/open/placementOf.js';
import type {
  AnswerRunOptions,
  FollowOptions,
  Generation,
  GenerationSource,
  RunOptions,
  ValueOf,
} from './engine/rows/Generation.js';
import { InFlight, ORDER_WINDOW } from './engine/rows/InFlight.js';
import { intake } from './engine/rows/intake.js';
import { checkRows } from './engine/rows/checkRows.js';
import { checkFollowOptions, checkRunOptions } from './engine/rows/checkRunOptions.js';
import { checkPerplexity, type PerplexityOptions } from './engine/rows/checkPerplexity.js';
import { perplexityOf, type Perplexity } from './engine/rows/perplexityOf.js';
import { settledLookAhead, type RowLookAhead } from './engine/rows/rowLookAhead.js';
import { SharedAnswers } from './engine/rows/SharedAnswers.js';
import { scoredWindows, type WindowScore } from './engine/rows/ScoredRow.js';
import type { Schedule } from './engine/schedules/Schedule.js';
import { layerBounds } from './engine/grid/Square.js';
import { peerFacts } from './engine/peers/peerFacts.js';
import { beginOf, joined } from './engine/peers/begin.js';
import type { Peers } from './engine/peers/PeerConnection.js';
import { checkLayers } from './engine/peers/checkLayers.js';
import { checkPeers } from './engine/peers/checkPeers.js';
import { madeOf } from './collections/cancellable.js';
import type { EngineOptions } from './EngineOptions.js';
import { InterruptedError } from './errors/InterruptedError.js';
import { UsageError } from './errors/UsageError.js';
import { createTokenizer } from './model/createTokenizer.js';
import { identifyModel } from './model/identity/identifyModel.js';
import { checkUnchanged, modelStamps } from './model/identity/modelStamps.js';
import type { ModelSource } from './model/ModelSource.js';
import { partOf } from './model/partOf.js';
import { readModel } from './model/readModel.js';
import { resolveModel } from './model/resolveModel.js';
import type { Tokenizer } from './model/Tokenizer.js';
import { generatedRows } from './operators/generatedRows.js';
import { iterated } from './operators/iterated.js';
import { pulled } from './operators/pulled.js';
import { throughStages } from './operators/throughStages.js';
import type {
  ClassifyOptions,
  ClassifyResult,
  EmbedOptions,
  EmbedResult,
  ScoreOptions,
  ScoreResult,
} from './Results.js';
import type { RowInput, RowResult } from './Row.js';

/** Rows in whatever form they come. All but a plain Observable are pulled, so nothing piles up. */
export type RowSource = Iterable<RowInput> | AsyncIterable<RowInput> | ReadableStream<RowInput> | Observable<RowInput>;

/**
 * A model, opened on a machine: its weights in memory, its tokenizer, and the device that computes. Owns all of it
 * until `close`.
 *
 * @example
 * await using engine = await Engine.open({ model: 'smollm2-135m-instruct' });
 * for await (const row of engine.generate([{ prompt: 'Once' }])) console.log(row.text);
 */
export class Engine implements GenerationSource, AsyncDisposable {
  private readonly runs = new Set<Pick<Run<unknown>, 'fail' | 'drained'>>();
  private readonly device: NativeDevice;
  private readonly pool: PagePool;
  private readonly movement: Movement;
  private readonly outlook: Outlook;
  /** By which plan it was opened. */
  readonly plan: SettledOptions['planned']['plan'];
  private readonly answers: AnswerRuns;
  private nextRun = 1;
  private readonly resultIdentityKey: string;
  private closing: Promise<void> | undefined;
  private readonly grammars: Grammars;

  private constructor(
    /** What the model's files say. */
    readonly source: ModelSource,
    readonly tokenizer: Tokenizer,
    /**
     * Everything that decides its results beside the rows and what `generate` is told, as one value: equal ones give
     * equal bits.
     */
    readonly resultIdentity: ResultIdentity,
    /** Opening and loading took this long. */
    readonly loadSeconds: number,
    runtime: NativeRuntime,
    private readonly settled: SettledOptions,
  ) {
    const { decoder } = source;
    this.device = deviceOf(runtime, settled, decoder);
    this.pool = poolOf(settled);
    this.movement = movementOf(settled, decoder, this.device.computeTier);
    this.outlook = new Outlook(settled, placementOf(settled));
    this.plan = settled.planned.plan;
    this.resultIdentityKey = resultIdentityKey(resultIdentity);
    this.answers = new AnswerRuns({
      source,
      tokenizer,
      limits: decoder,
      resultIdentity: this.resultIdentityKey,
      cacheTokens: () => this.pool.longestRow,
      check: (options) => {
        this.checkOpen();
        checkLayers(settled.grid, options);
      },
      score: (rows, options) => this.score(rows, options),
      composed: (options, read) => this.composed(options, read),
    });
    this.grammars = new Grammars(loadAddon(), tokenizer, decoder.vocabularySize, settled.grid.part !== undefined);
  }

  /** What was chosen where `auto` was allowed: it changes results a little. */
  get compression(): Pick<SettledOptions, 'compressWeights' | 'compressCache'> {
    const { compressWeights, compressCache } = this.settled;
    return { compressWeights, compressCache };
  }

  /**
   * Opens a model and loads its weights.
   *
   * @throws UsageError for an option that is unknown, of the wrong type or out of range; before a model is fetched or
   * read, unless the option's range is the model's
   * @throws ModelFileError for a file that is missing, truncated, corrupt or unsupported, or that is written meanwhile
   * @throws MemoryBudgetError if the model cannot run within `cpuMemory`; it names the smallest cap that works
   * @throws what a callback of the options throws, with everything freed
   */
  static async open(options: EngineOptions): Promise<Engine> {
    const start = performance.now();
    const checked = await checkedOptions(options);
    const { signal } = checked;
    const stopIfAborted = (): void => {
      if (signal?.aborted) throw new InterruptedError(signal.reason);
    };
    stopIfAborted();
    const path = await resolveModel(checked.model, {
      ...(signal && { signal }),
      ...(checked.onDownload && { onProgress: checked.onDownload }),
    });
    stopIfAborted();
    const stamps = await modelStamps(path);
    const source = await readModel(path);
    const identity = await identifyModel(source.files, { signal, onProgress: checked.onIdentify });
    const tokenizer = createTokenizer(source.tokenizer, source.decoder.vocabularySize);
    const rows = await rowsToCome(checked, tokenizer);
    stopIfAborted();
    const part = checked.layers ? partOf(source, checked.layers) : source;
    const { runtime, settled } = await openRuntime(part, identity, checked, rows.expected, rows.rowTokens);
    try {
      stopIfAborted();
      await loadWeights(runtime, settled.storePath, checked);
      await checkUnchanged(stamps, identity);
      stopIfAborted();
    } catch (error) {
      await runtime.close();
      throw error;
    }
    return new Engine(
      source,
      tokenizer,
      identityOfEngine(identity, runtime, settled),
      (performance.now() - start) / 1000,
      runtime,
      settled,
    );
  }

  /**
   * Generates an answer for each row, pulled: rows are read as places come free, and a consumer that stops taking
   * results stops admission. Calls may overlap; they share the engine's memory.
   *
   * @throws UsageError for an option out of range, before anything is read
   * @throws ResponseFormatError, before a row is read, for a `responseFormat` or `schema` that answers cannot be held
   * to
   * @throws TaskError if the device fails; ScheduleError for a schedule or pipeline that breaks a path;
   * InterruptedError if `options.signal` fires; what a callback throws. Rows that were finished have been delivered
   * @throws whatever `rows` throws, after the results of all rows before that
   */
  generate<Options extends RunOptions = RunOptions>(
    rows: RowSource,
    options?: Options,
  ): AsyncGenerator<RowResult<ValueOf<Options>>, void, undefined>;
  generate(rows: RowSource, options: RunOptions = {}): AsyncGenerator<RowResult, void, undefined> {
    this.checkRun(rows, options);
    return this.iterate(rows, (read) => this.generation(read, options));
  }

  /** The parts of a generation, for compositions of one's own: see `generatedRows`. */
  generation(rows: AsyncIterable<RowInput> | Iterable<RowInput>, given: RunOptions = {}): Generation {
    this.checkRun(rows, given);
    const { options, refine } = withSchema(given);
    return this.composed(options, (inFlight, recorder) => {
      const answers = SharedAnswers.of<'generate', RowResult>('generate', recorder, options);
      const {
        pool,
        tokenizer,
        source: { decoder: limits },
        resultIdentityKey: identity,
      } = this;
      const source = madeOf(rows, (input) =>
        intake(input, {
          options,
          tokenizer,
          limits,
          // Asked for each row: peers may have less memory than is here.
          get cacheTokens() {
            return pool.longestRow;
          },
          inFlight,
          recorder,
          answers,
          resultIdentity: identity,
          answerFormat: (format) => this.grammars.of(format),
          refine,
        }),
      );
      return { source, answered$: answers.results$ };
    });
  }

  /**
   * Tells for each row how likely labels are behind its prompt, pulled as `generate` does. One pass over the row serves
   * all labels: of one of several tokens, all but the first are computed behind it.
   *
   * @throws UsageError for an option out of range, before anything is read; and whatever `generate` throws
   */
  classify(
    rows: RowSource,
    options: AnswerRunOptions<ClassifyOptions> = {},
  ): AsyncGenerator<ClassifyResult, void, undefined> {
    checkRows(rows);
    return this.iterate(rows, this.answers.prepared('classify', options));
  }

  /**
   * Tells how likely completions are behind each row's prompt: for evaluation, for reranking. Otherwise as `classify`.
   */
  score(rows: RowSource, options: AnswerRunOptions<ScoreOptions> = {}): AsyncGenerator<ScoreResult, void, undefined> {
    checkRows(rows);
    return this.iterate(rows, this.answers.prepared('score', options));
  }

  /**
   * Makes an embedding of each row: its hidden states behind the final norm, pooled. Rows that are pooled over all of
   * their tokens share nothing, unless they are equal. Otherwise as `classify`.
   */
  embed(rows: RowSource, options: AnswerRunOptions<EmbedOptions> = {}): AsyncGenerator<EmbedResult, void, undefined> {
    checkRows(rows);
    return this.iterate(rows, this.answers.prepared('embed', options));
  }

  /** The parts of `classify`, `score` or `embed`, for compositions of one's own: see `generatedRows`. */
  answering<Kind extends AnswerKind>(
    kind: Kind,
    rows: AsyncIterable<RowInput> | Iterable<RowInput>,
    options: Answers[Kind]['options'],
  ): Generation<Answers[Kind]['result']> {
    checkRows(rows);
    return this.answers.prepared(kind, options)(rows);
  }

  /**
   * Computes this engine's layers for the rows of an engine that has the layers before, for as long as that one sends
   * some. Of the engines that share a model the one with the first layers generates (`generate(rows, { peers })`), all
   * others follow; each one's sink leads to the next one's source, and the last one's to the first one's. Resolves when
   * the engine before has ended its run or given it up.
   *
   * @param peers a source and a sink of this run's own
   * @throws UsageError for an engine that has the model's first layers, or without peers
   * @throws PeerError if the engine before fails, or does not fit; TaskError if the device fails; InterruptedError if
   * `options.signal` fires
   */
  async follow(peers: Peers, options: FollowOptions = {}): Promise<void> {
    const run = this.following(peers, options);
    try {
      await lastValueFrom(throughStages(run, options.pipeline), { defaultValue: undefined });
    } finally {
      await run.settled();
    }
  }

  /** The run of `follow`, for compositions of one's own. */
  following(peers: Peers, options: FollowOptions = {}): FollowingRun {
    this.checkOpen();
    checkFollowOptions(options);
    if (layerBounds(this.settled.grid).embeds)
      throw new UsageError(
        'follow: found an engine of the first layers, expected one of later layers; the first one generates',
      );
    checkPeers(peers);
    const recorder = this.recorder('following', options);
    const run = new FollowingRun({
      ...this.setup(options, recorder),
      peers,
      join: (begin) => {
        const next = joined(begin, peerFacts(this.source.decoder, this.settled, this.resultIdentity.model));
        this.pool.limitTo(next.pages);
        return next;
      },
    });
    this.track(run);
    return run;
  }

  /**
   * Scores a text under the model, in windows that do not overlap. A window's first tokens are its prompt: they are
   * given, not scored, and attention is dense for them. The others count as generated one by one, so that sparse
   * attention, where it is on, is what they get.
   *
   * @param options.window tokens a window, at least 2
   * @param options.promptTokens tokens of a window that are its prompt, 1 (the default) to window - 1; a last window
   * with no others is left out
   * @throws UsageError for options out of range, and for a text of which nothing would be scored; RowError for a token
   * that the model does not have, and, with code `numeric`, where the model's logits are not finite, or a token has no
   * probability at all
   */
  async perplexity(tokens: readonly number[], options: PerplexityOptions): Promise<Perplexity> {
    this.checkOpen();
    checkLayers(this.settled.grid);
    const { window, promptTokens, signal } = checkPerplexity(tokens, options, this.source.decoder);
    const longest = Math.min(window, tokens.length);
    const most = this.pool.longestRow;
    if (longest - 1 > most)
      throw new UsageError(`window: found ${window}, but the KV cache holds ${most} tokens: give more memory`);
    const schedule = diagonalBlock();
    const run = this.start<WindowScore>(
      scoredWindows(tokens, window, promptTokens),
      { schedule, signal },
      this.recorder(schedule.name, {}),
    );
    const scores: WindowScore[] = [];
    for await (const score of iterated(
      throughStages(run),
      () => undefined,
      () => run.drained,
    ))
      scores.push(score);
    return perplexityOf(scores);
  }

  /** Ends all runs with InterruptedError, waits for the device, frees everything. Idempotent. */
  close(): Promise<void> {
    this.closing ??= (async () => {
      const runs = [...this.runs];
      for (const run of runs) run.fail(new InterruptedError('the engine was closed'));
      await Promise.all(runs.map((run) => run.drained));
      await this.device.close();
      await this.outlook.learned();
    })();
    return this.closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  private async *iterate<Result>(
    rows: RowSource,
    compose: (rows: AsyncIterable<RowInput> | Iterable<RowInput>) => Generation<Result>,
  ): AsyncGenerator<Result, void, undefined> {
    const generation = compose(isObservable(rows) ? pulled(rows) : rows);
    yield* iterated(generatedRows(generation), generation.delivered, () => generation.run.settled());
  }

  /** A run over rows that `read` makes of an input. */
  private composed<Result extends { readonly row?: unknown }>(
    options: RunOptions,
    read: ReadOfRun<Result>,
  ): Generation<Result> {
    const schedule = options.schedule ?? BLOCK_SCHEDULES[this.settled.schedule].create();
    const { grid } = this.settled;
    const places = grid.slots * grid.rowsPerSlot;
    const ahead = settledLookAhead(options.lookAhead);
    // Rows that are generated, that wait, and that may pass one of these; and their results.
    const inFlight = new InFlight({
      rows: 2 * (places + ahead.rows) + ORDER_WINDOW,
      leastRows: places,
      carriedBytes: ahead.bytes,
    });
    const ledger = this.outlook.ledger(schedule.name, options.pipeline !== undefined);
    const recorder = this.recorder(schedule.name, options, ledger);
    const { source, answered$ } = read(inFlight, recorder);
    const run = this.start(source, { ...options, schedule, mostRows: this.outlook.mostRows }, recorder);
    this.outlook.began(ledger);
    void run.drained.then(() => {
      inFlight.wake();
      this.outlook.ended(ledger);
    });
    return {
      run,
      options,
      answered$,
      delivered: ({ row }) => {
        inFlight.leave(row);
      },
    };
  }

  private start<Result>(
    rows: AsyncIterator<RunRow<Result>>,
    options: StartOptions,
    recorder: RunRecorder,
  ): Run<Result> {
    const { grid } = this.settled;
    const { schedule, mostRows, peers, sharePrefixes = true } = options;
    const ahead = settledLookAhead(options.lookAhead);
    const run = new Run<Result>({
      ...this.setup(options, recorder),
      schedule,
      // Not on a GPU beside pages on disk: shared ones are in memory, and the device attends to these.
      sharePrefixes: sharePrefixes && !(this.settled.gpuTier && this.pool.disk.share > 0),
      feed: new RowFeed(rows, grid.slots * grid.rowsPerSlot + ahead.rows, ahead.bytes),
      mostRows,
      ...(peers && { peers, begin: beginOf(peerFacts(this.source.decoder, this.settled, this.resultIdentity.model)) }),
    });
    this.track(run);
    return run;
  }

  /**
   * What every run takes of this engine. @throws UsageError if it has been closed by a callback of the caller's, which
   * have run since the options were checked
   */
  private setup(
    { window = defaultWindow(this.settled.grid), signal }: Pick<StartOptions, 'window' | 'signal'>,
    recorder: RunRecorder,
  ): SquareRunSetup {
    this.checkOpen();
    const {
      device,
      movement,
      pool,
      settled: { grid },
    } = this;
    return { id: this.nextRun++, device, grid, movement, pool, window, recorder, signal };
  }

  private track(run: Pick<Run<unknown>, 'fail' | 'drained'>): void {
    this.runs.add(run);
    void run.drained.then(() => this.runs.delete(run));
  }

  private recorder(schedule: string, options: RecordedOptions, ledger?: SeenRun['ledger']): RunRecorder {
    return recorderOf(
      this.settled,
      {
        model: this.source.path,
        loadSeconds: this.loadSeconds,
        outlook: this.outlook,
        pool: this.pool,
        schedule,
        ledger,
      },
      options,
    );
  }

  private checkOpen(): void {
    if (this.closing) throw new UsageError('the engine is closed');
  }

  private checkRun(rows: unknown, options: RunOptions): void {
    this.checkOpen();
    checkRunOptions(options, this.source.decoder.vocabularySize);
    checkRows(rows);
    checkLayers(this.settled.grid, options);
  }
}

interface StartOptions {
  readonly schedule: Schedule;
  readonly mostRows?: (() => number) | undefined;
  readonly window?: number;
  readonly peers?: Peers;
  readonly sharePrefixes?: boolean;
  readonly lookAhead?: RowLookAhead;
  readonly signal?: AbortSignal | undefined;
}
