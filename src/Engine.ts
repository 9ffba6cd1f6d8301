import { isObservable, Subject, type Observable } from 'rxjs';
import type { NativeRuntime } from './bindings/Addon.js';
import { nativeCallAsync } from './bindings/nativeCall.js';
import { openRuntime, type SettledOptions } from './engine/openRuntime.js';
import type { EnginePlan } from './engine/EnginePlan.js';
import { chooseBlock } from './engine/policy/chooseBlock.js';
import { predictRun, type RunTotals } from './engine/predictRun.js';
import { BLOCK_SCHEDULES } from './engine/schedules/blockSchedules.js';
import { WorkloadDrift } from './engine/WorkloadDrift.js';
import { NativeDevice } from './engine/execution/NativeDevice.js';
import { RowFeed } from './engine/execution/RowFeed.js';
import { Run } from './engine/execution/Run.js';
import type { RunRow } from './engine/execution/RunRow.js';
import { RunRecorder, type MemoryUse } from './engine/execution/RunRecorder.js';
import type { Movement, Placement, TierShares } from './engine/memory/movement.js';
import { pagedMovement } from './engine/memory/pagedMovement.js';
import { PagePool } from './engine/memory/PagePool.js';
import type { OrderedResult } from './engine/rows/ActiveRow.js';
import type { Generation, GenerationSource, RunOptions } from './engine/rows/Generation.js';
import { InFlight } from './engine/rows/InFlight.js';
import { intake } from './engine/rows/intake.js';
import { checkSampling } from './engine/rows/prepareRow.js';
import { ScoredRow, type WindowScore } from './engine/rows/ScoredRow.js';
import { diagonalBlock } from './engine/schedules/diagonalBlock.js';
import type { Schedule } from './engine/schedules/Schedule.js';
import type { EngineOptions } from './EngineOptions.js';
import type { ExpectedRows } from './ExpectedRows.js';
import type { RunStats } from './RunStats.js';
import type { PlanRequest } from './engine/policy/PlanRequest.js';
import { InterruptedError } from './errors/InterruptedError.js';
import { RowError } from './errors/RowError.js';
import { UsageError } from './errors/UsageError.js';
import { createTokenizer } from './model/createTokenizer.js';
import type { WeightCompression } from './model/compressBindings.js';
import type { ModelSource } from './model/ModelSource.js';
import { readModel } from './model/readModel.js';
import { resolveModel } from './model/resolveModel.js';
import type { Tokenizer } from './model/Tokenizer.js';
import { defaultPipeline } from './operators/defaultPipeline.js';
import { finishedRows } from './operators/finishedRows.js';
import { generatedRows } from './operators/generatedRows.js';
import { iterated } from './operators/iterated.js';
import { pulled } from './operators/pulled.js';
import { squares } from './operators/squares.js';
import type { RowInput, RowResult } from './Row.js';

/** Squares that may be under way at once: enough to keep the device's queues filled while JavaScript is busy with results. */
const WINDOW = 8;
/** Results that may wait for an earlier row, on top of the rows that are being generated. */
const ORDER_WINDOW = 1024;

/** Rows in whatever form they come. All but a plain Observable are pulled, so nothing piles up. */
export type RowSource = Iterable<RowInput> | AsyncIterable<RowInput> | ReadableStream<RowInput> | Observable<RowInput>;

/** The likelihood of a text. */
export interface Perplexity {
  /** Tokens that were scored. */
  readonly tokens: number;
  readonly negativeLogLikelihood: number;
  /** exp(negativeLogLikelihood / tokens) */
  readonly perplexity: number;
}

/**
 * A model, opened on a machine: its weights in memory, its tokenizer, and the device that computes. Owns all of it until `close`.
 *
 * @example
 * await using engine = await Engine.open({ model: 'smollm2-135m-instruct' });
 * for await (const row of engine.generate([{ prompt: 'Once' }])) console.log(row.text);
 */
export class Engine implements GenerationSource, AsyncDisposable {
  private readonly runs = new Set<Run<unknown>>();
  private readonly device: NativeDevice;
  private readonly pool: PagePool;
  private readonly placement: Placement;
  private readonly movement: Movement;
  /** Undefined where how many rows share a pass was not planned, or is what the caller said. */
  private readonly drift: WorkloadDrift | undefined;
  private nextRun = 1;
  private closing: Promise<void> | undefined;

  private constructor(
    /** What the model's files say. */
    readonly source: ModelSource,
    readonly tokenizer: Tokenizer,
    /** Opening and loading took this long. */
    readonly loadSeconds: number,
    runtime: NativeRuntime,
    private readonly settled: SettledOptions,
  ) {
    const { decoder } = source;
    const { cache, activations, streamedBytes, cacheOnDisk, activationsOnDisk } = settled;
    const windows = decoder.layerSpecs.map(({ window }) => window);
    this.device = new NativeDevice(runtime, { ...settled, pageTokens: cache.pageTokens, windows });
    this.pool = new PagePool(cache.pages, cache.pageTokens, settled.diskCache);
    const [bytes, streamed] = [settled.layerBytes, streamedBytes].map((list) => list.reduce((sum, each) => sum + each, 0));
    const onDisk = (share: number): TierShares => ({ gpu: 0, cpu: 1 - share, disk: share });
    this.placement = { weights: onDisk((streamed ?? 0) / Math.max(1, bytes ?? 0)), cache: onDisk(cacheOnDisk), activations: onDisk(activationsOnDisk) };
    this.movement = pagedMovement({
      streamedBytes,
      pageTokens: cache.pageTokens,
      pageSlotBytes: settled.pageSlotBytes,
      windows,
      tokenBytes: decoder.hiddenSize * 4,
      residentTokens: activations?.residentTokens ?? Infinity,
    });
    const { request, plan } = settled.planned;
    if (plan.origin === 'auto' && request && request.allow?.batchSize === undefined) {
      this.drift = new WorkloadDrift(request.workload, settled.slots * settled.rowsPerSlot, (workload) => this.rowsFor({ ...request, workload }));
    }
  }

  /** What was chosen where `auto` was allowed: it changes results a little. */
  get compression(): { readonly compressWeights: WeightCompression; readonly compressCache: 'none' | '8bit' | '4bit' } {
    const { compressWeights, compressCache } = this.settled;
    return { compressWeights, compressCache };
  }

  /** By which plan it was opened. */
  get plan(): EnginePlan {
    return this.settled.planned.plan;
  }

  /**
   * Opens a model and loads its weights.
   *
   * @throws UsageError for an option out of range
   * @throws ModelFileError for a file that is missing, truncated, corrupt or unsupported
   * @throws MemoryBudgetError if the model cannot run within `cpuMemory`; it names the smallest cap that works
   */
  static async open(options: EngineOptions): Promise<Engine> {
    const start = performance.now();
    const { signal } = options;
    const stopIfAborted = (): void => {
      if (signal?.aborted) throw new InterruptedError(signal.reason);
    };
    stopIfAborted();
    const path = await resolveModel(options.model, signal ? { signal } : {});
    stopIfAborted();
    const source = await readModel(path);
    const tokenizer = createTokenizer(source.tokenizer, source.decoder.vocabularySize);
    const expected = typeof options.expectedRows === 'function' ? await options.expectedRows(tokenizer) : options.expectedRows;
    const rowTokens = expected ? longRow(expected) : typeof options.rowTokens === 'function' ? await options.rowTokens(tokenizer) : options.rowTokens;
    stopIfAborted();
    const { runtime, settled } = await openRuntime(source, options, expected, rowTokens);
    try {
      stopIfAborted();
      const total = runtime.bytes.weights;
      await nativeCallAsync(() => runtime.load((bytes) => options.onLoad?.(bytes, total)));
      stopIfAborted();
    } catch (error) {
      await runtime.close();
      throw error;
    }
    return new Engine(source, tokenizer, (performance.now() - start) / 1000, runtime, settled);
  }

  /**
   * Generates an answer for each row, pulled: rows are read as places come free, and a consumer that stops taking results stops admission.
   * Calls may overlap; they share the engine's memory.
   *
   * @throws UsageError for an option out of range, before anything is read
   * @throws TaskError if the device fails; InterruptedError if `options.signal` fires. Rows that were finished have been delivered
   */
  generate(rows: RowSource, options: RunOptions = {}): AsyncGenerator<RowResult, void, undefined> {
    this.checkOptions(options);
    return this.iterate(rows, options);
  }

  /** The parts of a generation, for compositions of one's own: see `generatedRows`. */
  generation(rows: AsyncIterable<RowInput> | Iterable<RowInput>, options: RunOptions = {}): Generation {
    this.checkOptions(options);
    const schedule = options.schedule ?? BLOCK_SCHEDULES[this.settled.schedule]();
    const { grid } = this.settled;
    const places = grid.slots * grid.rowsPerSlot;
    const inFlight = new InFlight(2 * places + ORDER_WINDOW);
    const rejected$ = new Subject<OrderedResult>();
    const { contextTokens, vocabularySize } = this.source.decoder;
    const recorder = this.recorder(schedule.name, options);
    const source = intake(rows, {
      options,
      tokenizer: this.tokenizer,
      limits: { contextTokens, vocabularySize },
      cacheTokens: this.pool.longestRow,
      inFlight,
      recorder,
      rejected$,
    });
    const { drift } = this;
    const run = this.start(source, { ...options, schedule, mostRows: drift && (() => drift.rows) }, recorder);
    void run.drained.then(() => {
      inFlight.wake();
      options.onProgress?.(recorder.progress());
      options.onStats?.(recorder.stats());
    });
    return {
      run,
      options,
      rejected$,
      delivered: () => {
        inFlight.leave();
      },
    };
  }

  /**
   * Scores a text under the model, in windows that do not overlap; the first token of each window is not scored.
   *
   * @param options.window tokens a window, at least 2
   */
  async perplexity(tokens: readonly number[], options: { readonly window: number; readonly signal?: AbortSignal }): Promise<Perplexity> {
    const { window, signal } = options;
    const { contextTokens, vocabularySize } = this.source.decoder;
    const longest = Math.min(window, tokens.length);
    if (!Number.isSafeInteger(window) || window < 2 || longest > contextTokens) {
      throw new UsageError(`window: found ${window}, expected a whole number from 2 to ${contextTokens}, the model's context`);
    }
    const wrong = tokens.find((token) => !Number.isInteger(token) || token < 0 || token >= vocabularySize);
    if (wrong !== undefined) throw new RowError('token-out-of-range', `tokens: found ${wrong}, expected ids from 0 to ${vocabularySize - 1}`);
    const most = this.pool.longestRow;
    if (longest - 1 > most) throw new UsageError(`window: found ${window}, but the KV cache holds ${most} tokens: give more memory`);
    const windows = async function* (): AsyncGenerator<ScoredRow> {
      for (let first = 0; first + 1 < tokens.length; first += window) yield new ScoredRow(tokens.slice(first, first + window), first);
    };
    const schedule = diagonalBlock();
    const run = this.start<WindowScore>(windows(), { schedule, signal }, this.recorder(schedule.name, {}));
    const scores: WindowScore[] = [];
    const scores$ = squares(run).pipe(defaultPipeline(run), finishedRows(run));
    for await (const score of iterated(scores$, () => undefined, () => run.drained)) scores.push(score);
    // Summed in order of the text, so that the figure does not depend on how the windows were batched.
    scores.sort((a, b) => a.firstToken - b.firstToken);
    const scored = scores.reduce((sum, score) => sum + score.tokens, 0);
    const negativeLogLikelihood = scores.reduce((sum, score) => sum + score.negativeLogLikelihood, 0);
    return { tokens: scored, negativeLogLikelihood, perplexity: Math.exp(negativeLogLikelihood / scored) };
  }

  /** Ends all runs with InterruptedError, waits for the device, frees everything. Idempotent. */
  close(): Promise<void> {
    this.closing ??= (async () => {
      const runs = [...this.runs];
      for (const run of runs) run.fail(new InterruptedError('the engine was closed'));
      await Promise.all(runs.map((run) => run.drained));
      await this.device.close();
    })();
    return this.closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  private async *iterate(rows: RowSource, options: RunOptions): AsyncGenerator<RowResult, void, undefined> {
    const generation = this.generation(isObservable(rows) ? pulled(rows) : rows, options);
    yield* iterated(generatedRows(generation), generation.delivered, () => generation.run.drained);
  }

  private start<Result>(rows: AsyncIterator<RunRow<Result>>, options: StartOptions, recorder: RunRecorder): Run<Result> {
    const { grid } = this.settled;
    // Callbacks of the caller's have run since the options were checked.
    if (this.closing) throw new UsageError('the engine is closed');
    const run = new Run<Result>({
      id: this.nextRun++,
      device: this.device,
      grid,
      movement: this.movement,
      schedule: options.schedule,
      pool: this.pool,
      window: options.window ?? WINDOW,
      feed: new RowFeed(rows, grid.slots * grid.rowsPerSlot),
      recorder,
      mostRows: options.mostRows,
      signal: options.signal,
    });
    this.runs.add(run);
    void run.drained.then(() => this.runs.delete(run));
    return run;
  }

  private recorder(schedule: string, { onProgress, onTrace, pipeline }: Pick<RunOptions, 'onProgress' | 'onTrace' | 'pipeline'>): RunRecorder {
    const { grid, rowsPerSlot, threads, precision, compressWeights, compressCache, sparseAttention, planned } = this.settled;
    const block = { batchSize: rowsPerSlot, batches: grid.slots, tokensPerSquare: grid.tokensPerSquare, ...this.placement, compressWeights, compressCache, cpuAttention: true, threads };
    return new RunRecorder({
      model: this.source.path,
      policy: { schedule, ...block, sparseAttention, precision },
      loadSeconds: this.loadSeconds,
      memory: () => this.memory(),
      lengths: this.drift,
      // Of stages of one's own nothing is known.
      outlook: (totals) => ({ ...(pipeline === undefined && this.predicted(schedule, block, totals)), plan: { origin: planned.plan.origin, ...(planned.plan.why !== undefined && { why: planned.plan.why }), replans: this.drift?.replans ?? [] } }),
      onProgress,
      onTrace,
    });
  }

  private predicted(schedule: string, block: Parameters<typeof predictRun>[1], totals: RunTotals): Pick<RunStats, 'predicted'> {
    const { request, plan } = this.settled.planned;
    const batchSize = this.drift ? Math.ceil(this.drift.rows / block.batches) : block.batchSize;
    const run = request && predictRun(request, { ...block, batchSize }, schedule, totals);
    if (!run) return {};
    const planned = plan.workload && plan.predicted && { workload: plan.workload, tokensPerSecond: plan.predicted.tokensPerSecond };
    return { predicted: { ...run, ...(planned && { planned }) } };
  }

  /** How many rows should be under way together for another workload, as things lie now. */
  private rowsFor(request: PlanRequest): number {
    const { grid, rowsPerSlot, reservedBytes, compressWeights, compressCache, schedule } = this.settled;
    const best = chooseBlock(
      {
        ...request,
        hardware: { ...request.hardware, memory: { ...request.hardware.memory, cpuBytes: reservedBytes } },
        allow: { ...request.allow, schedules: [schedule], batches: grid.slots, mostBatchSize: grid.rowsPerSlot, compressWeights: [compressWeights], compressCache: [compressCache] },
      },
      this.placement,
    );
    // Longer rows than fit as they are: as they are admitted one by one, memory takes care of itself.
    return grid.slots * (best?.policy.batchSize ?? rowsPerSlot);
  }

  /** Bytes of each tier: the most that may be used, what is, and what was at most. */
  private memory(): MemoryUse {
    const { cache, capBytes, reservedBytes, pageBytes, pageSlotBytes, diskCache, diskBytes, storeBytes, spillBytes } = this.settled;
    const { used, peakUsed } = this.pool;
    const fixed = reservedBytes - cache.pages * pageBytes;
    const cpu = { capacityBytes: capBytes, usedBytes: fixed + used.memory * pageBytes, peakBytes: fixed + peakUsed.memory * pageBytes };
    if (storeBytes + spillBytes === 0) return { cpu };
    const diskPageBytes = pageSlotBytes * this.settled.grid.layers;
    const kept = storeBytes + spillBytes - diskCache.pages * diskPageBytes;
    const capacityBytes = Number.isFinite(diskBytes) ? diskBytes : storeBytes + spillBytes;
    return { cpu, disk: { capacityBytes, usedBytes: kept + used.disk * diskPageBytes, peakBytes: kept + peakUsed.disk * diskPageBytes } };
  }

  private checkOptions(options: RunOptions): void {
    if (this.closing) throw new UsageError('the engine is closed');
    try {
      checkSampling(options);
    } catch (error) {
      throw error instanceof RowError ? new UsageError(error.message) : error;
    }
    const { logprobs, order, window } = options;
    const most = this.source.decoder.vocabularySize;
    if (logprobs !== undefined && !(Number.isSafeInteger(logprobs) && logprobs >= 0 && logprobs <= most)) {
      throw new UsageError(`logprobs: found ${logprobs}, expected a whole number from 0 to ${most}, the vocabulary`);
    }
    if (order !== undefined && !['input', 'completion'].includes(order)) {
      throw new UsageError(`order: found ${JSON.stringify(order)}, expected input or completion`);
    }
    if (window !== undefined && !(Number.isSafeInteger(window) && window >= 1)) {
      throw new UsageError(`window: found ${window}, expected a whole number of at least 1`);
    }
  }
}

/** Tokens of a long row. */
function longRow({ promptTokens, newTokens, longRowTokens = promptTokens + newTokens }: ExpectedRows): number {
  return Math.max(1, Math.ceil(longRowTokens));
}

interface StartOptions {
  readonly schedule: Schedule;
  readonly mostRows?: (() => number) | undefined;
  readonly window?: number;
  readonly signal?: AbortSignal | undefined;
}
