import { basename } from 'node:path';
import { isObservable, lastValueFrom, type Observable } from 'rxjs';
import type { EnginePlan } from './engine/open/EnginePlan.js';
import { layOutEngine } from './engine/open/layOutEngine.js';
import { memoryUse, type Opened } from './engine/open/Opened.js';
import { sharedBytes } from './engine/open/hostMemory.js';
import { openRuntime } from './engine/open/openRuntime.js';
import { foreseenIdentity, identityOf, type ResultIdentity } from './engine/open/resultIdentity.js';
import type { Numerics } from './engine/open/settings.js';
import { validateOptions } from './engine/open/validateOptions.js';
import { DeviceActivity } from './engine/execution/DeviceActivity.js';
import type { FollowingRun } from './engine/execution/FollowingRun.js';
import { sharesModel } from './engine/peers/checkPeers.js';
import type { Peers } from './engine/peers/PeerConnection.js';
import type { ConnectedPeers } from './engine/peers/sockets/connectPeers.js';
import type { PeerListener } from './engine/peers/sockets/PeerListener.js';
import type { ListenOptions, SocketOptions } from './engine/peers/sockets/SocketOptions.js';
import type { AnswerKind, Answers } from './engine/rows/Answers.js';
import { checkAnswerOptions } from './engine/rows/checkAnswerOptions.js';
import { checkRows } from './engine/rows/checkRunOptions.js';
import { perplexityOf, type Perplexity, type PerplexityOptions } from './engine/rows/perplexity.js';
import { EngineRuns } from './engine/rows/EngineRuns.js';
import type {
  AnswerRunOptions,
  FollowOptions,
  GeneratedResults,
  GenerationSource,
  RunOptions,
  RunResults,
  ValueOf,
} from './engine/rows/Generation.js';
import type { WindowScore } from './engine/rows/ScoredRow.js';
import type { EngineOptions } from './EngineOptions.js';
import { errorOf } from './errors/errorOf.js';
import { InterruptedError } from './errors/InterruptedError.js';
import { checkUnchanged } from './model/identity/FileStamp.js';
import type { ModelSource } from './model/ModelSource.js';
import type { Tokenizer } from './model/Tokenizer.js';
import { chunkedEmbeddings } from './engine/rows/ChunkedEmbedding.js';
import { askedResults, chunkedResults } from './operators/askedResults.js';
import { iterated } from './operators/iterated.js';
import { pulled } from './operators/pulled.js';
import { runResults } from './operators/runResults.js';
import { openLimits, splitResults } from './operators/splitResults.js';
import { throughStages } from './operators/throughStages.js';
import type {
  ClassifyOptions,
  ClassifyResult,
  EmbedOptions,
  EmbedResult,
  RerankOptions,
  RerankResult,
  ScoreOptions,
  ScoreResult,
} from './Results.js';
import type { RowInput, RowResult } from './Row.js';
import type { EngineActivity } from './RunStats.js';
import { callSpan } from './telemetry/callSpan.js';
import type { Question } from './rows/questions.js';

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
  private readonly runs: EngineRuns;
  /** From when somebody has asked for it. */
  private watched: DeviceActivity | undefined;

  private constructor(
    /** The facts in the model's files. */
    readonly source: ModelSource,
    readonly tokenizer: Tokenizer,
    /**
     * Everything that decides its results beside the rows and what `generate` is told, as one value: equal ones give
     * equal bits.
     */
    readonly resultIdentity: ResultIdentity,
    /** Opening and loading took this long. */
    readonly loadSeconds: number,
    private readonly opened: Opened,
    /** Gives back what it has of a budget that engines share. */
    private readonly giveBack: () => void,
  ) {
    this.runs = new EngineRuns(
      {
        source,
        tokenizer,
        resultIdentity,
        loadSeconds,
        score: (rows, options) => this.score(rows, options),
        through: throughStages,
      },
      opened,
    );
  }

  /** By which plan it was opened. */
  get plan(): EnginePlan {
    return this.opened.plan.report;
  }

  /** Tells what the engine's queues and its memory have been doing, all calls together, since this was first asked. */
  activity(): EngineActivity {
    const { device, pool } = this.runs;
    this.watched ??= new DeviceActivity(device.completed$, () => memoryUse(this.opened, pool));
    return this.watched.read();
  }

  /** The compression chosen where `auto` was allowed: it changes results a little. */
  get compression(): Pick<Numerics, 'compressWeights' | 'compressCache'> {
    const { compressWeights, compressCache } = this.opened.settings.numerics;
    return { compressWeights, compressCache };
  }

  /**
   * Checks options as `open` does before it fetches a model, and opens nothing.
   *
   * @returns what can be told of the engine's `resultIdentity` by them: all but the model, and what is chosen only when
   * it is opened (`auto`; what is on a GPU)
   * @throws UsageError for an option that is unknown, of the wrong type or out of range
   */
  static async check(options: EngineOptions): Promise<Partial<ResultIdentity>> {
    return foreseenIdentity(await validateOptions(options));
  }

  /**
   * Opens a model and loads its weights.
   *
   * @throws UsageError for an option that is unknown, of the wrong type or out of range; before a model is fetched or
   * read, unless the option's range is the model's
   * @throws ModelFileError for a file that is missing, truncated, corrupt or unsupported, or that is written meanwhile
   * @throws MemoryBudgetError if the model cannot run within `cpuMemory`; it names the smallest cap that works
   * @throws ProcessLimitError where the process may not have that much (`ulimit -v`, `--max-old-space-size`)
   * @throws what a callback of the options throws, with everything freed
   */
  static async open(options: EngineOptions): Promise<Engine> {
    const start = performance.now();
    let giveBack = (): void => undefined;
    try {
      const { addon, requested, source, stamps, identity, tokenizer, layout } = await layOutEngine(
        options,
        ({ host, settings }) => {
          giveBack = settings.memory.budget?.reserve(sharedBytes(host)) ?? giveBack;
        },
      );
      const { signal, onPlan } = requested.options;
      onPlan?.(layout.plan.report);
      const opened = await openRuntime(addon, layout, identity, requested.options);
      try {
        await checkUnchanged(stamps, identity);
        if (signal?.aborted === true) throw new InterruptedError(signal.reason);
      } catch (error) {
        await opened.runtime.close();
        throw error;
      }
      const loadSeconds = (performance.now() - start) / 1000;
      const results = identityOf(opened, identity.hash, source.bindings);
      return new Engine(source, tokenizer, results, loadSeconds, opened, giveBack);
    } catch (error) {
      giveBack();
      throw error;
    }
  }

  /**
   * Generates an answer for each row, pulled: rows are read as places come free, and a consumer that stops taking
   * results stops admission. Calls may overlap: they join one run, which computes the rows of all of them together, and
   * each ends for itself; only one that brings a schedule, pipeline, window or peers of its own, or is traced, has a
   * run of its own.
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
  ): GeneratedResults<RowResult<ValueOf<Options>>>;
  generate(rows: RowSource, options: RunOptions = {}): GeneratedResults<RowResult> {
    this.runs.check(rows, options);
    if (options.questions !== undefined) return this.asked(rows, options);
    if (options.chunkTokens !== undefined)
      return chunkedResults(
        (parts, told) => this.generate(parts, told),
        pulledRows(rows),
        options,
        this.tokenizer,
        this.source.decoder,
      );
    return runResults(
      options,
      ({ onStats, onProgress, deltas }) =>
        () => {
          const onDelta = deltas();
          return this.runs.generation(pulledRows(rows), {
            ...options,
            onStats,
            onProgress,
            ...(onDelta && { onDelta }),
          });
        },
      () => callSpan('generate', basename(this.source.path), options),
    );
  }

  /**
   * Asks several questions about each row: what `generate` does with `questions`. The row's own text is computed once,
   * whatever number of questions there is; those that name earlier answers are asked when these are there. A question
   * that fails is an error among the row's `answers`, and the row's.
   *
   * @throws UsageError for questions, naming which and what of it; and whatever `generate` throws
   */
  ask(
    rows: RowSource,
    questions: readonly Question[],
    options: Omit<RunOptions, 'questions'> = {},
  ): GeneratedResults<RowResult> {
    return this.generate(rows, { ...options, questions });
  }

  /**
   * Tells for each row how likely labels are after its prompt, pulled as `generate` does. One pass over the row serves
   * all labels: of one of several tokens, all but the first are computed after it.
   *
   * @throws UsageError for an option out of range, before anything is read; and whatever `generate` throws
   */
  classify(rows: RowSource, options: AnswerRunOptions<ClassifyOptions> = {}): RunResults<ClassifyResult> {
    return this.answering('classify', rows, options);
  }

  /**
   * Tells how likely completions are after each row's prompt: for evaluation, for reranking. Otherwise as `classify`.
   */
  score(rows: RowSource, options: AnswerRunOptions<ScoreOptions> = {}): RunResults<ScoreResult> {
    return this.answering('score', rows, options);
  }

  /**
   * Tells how well each row's documents answer its query, by a model with a head that scores pairs of texts (a
   * cross-encoder). Otherwise as `classify`.
   */
  rerank(rows: RowSource, options: AnswerRunOptions<RerankOptions> = {}): RunResults<RerankResult> {
    return this.answering('rerank', rows, options);
  }

  /**
   * Makes an embedding of each row: its hidden states after the final norm, pooled. Rows that are pooled over all of
   * their tokens share nothing, unless they are equal. Otherwise as `classify`.
   */
  embed(rows: RowSource, options: AnswerRunOptions<EmbedOptions> = {}): RunResults<EmbedResult> {
    if (options.chunkTokens === undefined) return this.answering('embed', rows, options);
    checkRows(rows);
    checkAnswerOptions('embed', options);
    const { chunkTokens: _tokens, chunkOverlap: _overlap, ...others } = options;
    return splitResults(
      (parts, told) => this.answering('embed', parts, { ...others, ...told }),
      pulledRows(rows),
      chunkedEmbeddings(options, this.tokenizer),
      openLimits(options),
      options,
    );
  }

  /**
   * Computes this engine's layers, or its share of each, for the rows of an engine that has the layers before, or share
   * 0, for as long as that one sends some. Of the engines that share a model the one with the first layers, or share 0,
   * generates (`generate(rows, { peers })`), all others follow; each one's sink leads to the next one's source, and the
   * last one's to the first one's. Resolves when the engine before has ended its run or given it up.
   *
   * An engine of all layers computes prompts instead, for another one of all layers that generates: their pages go
   * over, and answers are those of one engine, bit for bit.
   *
   * @param peers a source and a sink of this run's own
   * @throws UsageError for an engine that has the model's first layers alone, or without peers
   * @throws PeerError if the engine before fails, or does not fit; TaskError if the device fails; InterruptedError if
   * `options.signal` fires
   */
  async follow(peers: Peers, options: FollowOptions = {}): Promise<void> {
    if (!sharesModel(this.opened.grid)) return this.computePrompts(peers, options);
    const run = this.following(peers, options);
    try {
      await lastValueFrom(throughStages(run, options.pipeline), { defaultValue: undefined });
    } finally {
      await run.settled();
    }
  }

  /**
   * Serves this engine's layers over sockets, run by run, until the listener or the engine is closed: `follow` for
   * whoever connects.
   *
   * @param address `HOST:PORT`, `[IPV6]:PORT` or `unix:PATH`, of this machine alone (127.0.0.1, [::1], a Unix socket)
   * unless `options` have a `sharedKey` or certificates (`tls`)
   * @throws UsageError for an engine that has the model's first layers, options out of range, and an address that is
   * none, is in use, or would be open to strangers
   */
  listen(address: string, options?: ListenOptions): Promise<PeerListener> {
    return this.runs.peers.listen(address, options, (peers, signal) => this.follow(peers, { signal }));
  }

  /**
   * Connects this engine, which has the model's first layers, with those that listen and have the others, or one of all
   * layers with one that computes prompts, for one run:
   * `generate(rows, { peers: await engine.connect(addresses) })`. Each engine connects to the next one.
   *
   * @param addresses in the order of the layers; each as the engine before reaches it, the last one from here, too
   * @throws UsageError; PeerError where an engine cannot be reached, refuses, or does not fit: another model, other
   * arithmetic, layers that do not join; InterruptedError
   */
  connect(addresses: readonly string[], options?: SocketOptions): Promise<ConnectedPeers> {
    return this.runs.peers.connect(addresses, options);
  }

  /** The run of `follow`, for compositions of one's own. */
  following(peers: Peers, options: FollowOptions = {}): FollowingRun {
    return this.runs.peers.following(peers, options);
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
    const run = this.runs.scoring(tokens, options);
    const scores: WindowScore[] = [];
    for await (const score of iterated(throughStages(run), undefined, () => run.drained)) scores.push(score);
    return perplexityOf(scores);
  }

  /** Ends all runs with InterruptedError, waits for the device, frees everything. Idempotent. */
  async close(): Promise<void> {
    await this.runs.close();
    this.giveBack();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  private async computePrompts(peers: Peers, options: FollowOptions): Promise<void> {
    const { run, prompts } = this.runs.peers.prompts(peers, options);
    try {
      for await (const prompt of iterated(throughStages(run, options.pipeline), undefined, () => run.settled()))
        await prompts.send(prompt);
      prompts.close();
    } catch (error) {
      prompts.close(errorOf(error));
      throw error;
    }
  }

  private asked(rows: RowSource, options: RunOptions): GeneratedResults<RowResult> {
    const { slots, rowsPerSlot } = this.opened.grid;
    return askedResults((asked, told) => this.generate(asked, told), pulledRows(rows), options, slots * rowsPerSlot);
  }

  private answering<Kind extends AnswerKind>(
    kind: Kind,
    rows: RowSource,
    options: Answers[Kind]['options'],
  ): RunResults<Answers[Kind]['result']> {
    checkRows(rows);
    return runResults(
      options,
      ({ onStats, onProgress }) => {
        const run = this.runs.answers.prepared(kind, options, { onStats, onProgress });
        return () => run(pulledRows(rows));
      },
      () => callSpan(kind, basename(this.source.path), options),
    );
  }
}

function pulledRows(rows: RowSource): AsyncIterable<RowInput> | Iterable<RowInput> {
  return isObservable(rows) ? pulled(rows) : rows;
}
