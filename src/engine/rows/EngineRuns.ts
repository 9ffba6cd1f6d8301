import type { Observable } from 'rxjs';
import { ByteLedger } from '../../collections/ByteLedger.js';
import { loadAddon } from '../../bindings/loadAddon.js';
import { madeOf } from '../../collections/cancellable.js';
import { InterruptedError } from '../../errors/InterruptedError.js';
import { UsageError } from '../../errors/UsageError.js';
import type { ModelSource } from '../../model/ModelSource.js';
import type { Tokenizer } from '../../model/Tokenizer.js';
import type { RowInput, RowResult } from '../../Row.js';
import { RunForecast, type SeenRun } from '../calibration/RunForecast.js';
import { recorderOf, type RecordedOptions, type RecordedRun } from '../calibration/recorderOf.js';
import { defaultWindow } from '../execution/defaultWindow.js';
import { HeapLimit } from '../execution/HeapLimit.js';
import type { NativeDevice } from '../execution/NativeDevice.js';
import { RowFeed } from '../execution/RowFeed.js';
import { Run, type StageContext } from '../execution/Run.js';
import type { RecorderSetup, RunRecorder } from '../execution/RunRecorder.js';
import type { RunRow } from '../execution/RunRow.js';
import type { RunOfSquares, SquareRunSetup } from '../execution/SquareRun.js';
import { StandingRun, type StandingRunSetup } from '../execution/StandingRun.js';
import type { Ordered } from './ActiveRow.js';
import { Grammars } from '../grammar/Grammars.js';
import { withSchema } from '../grammar/zodSchema.js';
import type { Movement } from '../memory/movement.js';
import type { PagePool, RowLimit } from '../memory/PagePool.js';
import { deviceOf, movementOf, placementOf, poolOf, type Opened } from '../open/Opened.js';
import { hostAttends } from '../open/gpuMemory.js';
import { rowLedgerBytes } from '../open/hostMemory.js';
import { resultIdentityKey, type ResultIdentity } from '../open/resultIdentity.js';
import { beginOf } from '../peers/begin.js';
import { checkAlone, checkLayers, checkMovesPages, sharesModel } from '../peers/checkPeers.js';
import type { Peers } from '../peers/PeerConnection.js';
import { BLOCK_SCHEDULES, diagonalBlock } from '../schedules/blockSchedules.js';
import { withoutPromise, type Schedule } from '../schedules/Schedule.js';
import { AnswerRuns, refuseEncoder, type AnswerHost, type ReadOfRun } from './AnswerRuns.js';
import { checkPerplexity, type PerplexityOptions } from './perplexity.js';
import { checkRows, checkRunOptions, joins } from './checkRunOptions.js';
import type { Generation, RunOptions } from './Generation.js';
import { heldBytes } from '../../rows/heldBytes.js';
import { InFlight, ORDER_WINDOW } from './InFlight.js';
import { intake } from './intake.js';
import { PeerRuns } from './PeerRuns.js';
import { rowLimitWords } from './rowLimitWords.js';
import { settledLookAhead } from './rowLookAhead.js';
import { scoredWindows, type WindowScore } from './ScoredRow.js';
import { LastAnswers, SharedAnswers } from './SharedAnswers.js';

/** An engine as its runs see it. */
export interface RunHost {
  readonly source: ModelSource;
  readonly tokenizer: Tokenizer;
  readonly resultIdentity: ResultIdentity;
  readonly loadSeconds: number;
  readonly score: AnswerHost['score'];
  /** Takes a run's squares through stages, by default the usual ones, to its results. */
  readonly through: <Result>(
    run: RunOfSquares<Result> & StageContext,
    pipeline?: RunOptions['pipeline'],
  ) => Observable<Result>;
}

/** Rows of one call that are about to be computed. */
interface MadeRun<Result> extends Pick<Generation<Result>, 'computed' | 'settled' | 'answered$'> {
  /** Resolved when nothing of them is left on the device. */
  readonly drained: Promise<void>;
}

/** Why a run ended, in words. */
const CLOSED = 'the engine was closed';

/** The runs of an engine: they share its device, its memory, and what is learned of them. */
export class EngineRuns {
  /** Runs that classify, score or embed. */
  readonly answers: AnswerRuns;
  /** Runs for other engines, and the ways to them. */
  readonly peers: PeerRuns;
  private readonly underWay = new Set<Pick<Run<unknown>, 'fail' | 'drained'>>();
  readonly device: NativeDevice;
  readonly pool: PagePool;
  private readonly movement: Movement;
  private readonly forecast: RunForecast;
  private readonly resultIdentityKey: string;
  private readonly grammars: Grammars;
  /** The memory that the rows of all runs may take together, with their results. */
  private readonly ledger: ByteLedger;
  private readonly heapLimit: HeapLimit;
  /** The run that calls join. */
  private readonly standing: StandingRun;
  /** The timings that are learned from the run that calls join. */
  private standingTimings: SeenRun['timings'];
  /** The last answers of the calls that have joined that run. */
  private standingAnswers: LastAnswers | undefined;
  private nextRun = 1;
  /** The last run over a ring of engines that began here. */
  private ringRun: Pick<Run<unknown>, 'closed'> | undefined;
  private closing: Promise<void> | undefined;
  /** Fires for what a run waits for when all of its rows have been computed. */
  private readonly closed = new AbortController();

  constructor(
    private readonly host: RunHost,
    private readonly opened: Opened,
  ) {
    const { source, tokenizer, resultIdentity } = host;
    const { decoder } = source;
    this.device = deviceOf(opened, decoder);
    this.pool = poolOf(opened);
    this.movement = movementOf(opened, decoder, this.device.computeTier);
    this.forecast = new RunForecast(opened, placementOf(opened));
    this.resultIdentityKey = resultIdentityKey(resultIdentity);
    this.answers = new AnswerRuns({
      source,
      tokenizer,
      limits: decoder,
      resultIdentity: this.resultIdentityKey,
      rowLimit: () => this.rowLimit,
      check: (options) => {
        this.checkOpen();
        this.checkComposed(options);
      },
      score: host.score,
      composed: (options, read) => this.composed(options, read),
    });
    this.peers = new PeerRuns({
      source,
      resultIdentity,
      opened,
      pool: this.pool,
      device: this.device,
      checkOpen: () => {
        this.checkOpen();
      },
      setup: (options) => this.setup(options, this.recorder('following', options)),
      track: (run) => {
        this.track(run);
      },
      start: (rows, options) => {
        const schedule = BLOCK_SCHEDULES[opened.settings.block.schedule].create();
        const recorder = this.recorder(schedule.name, options);
        return this.start(this.feed(rows, {}), { ...options, schedule, mostRows: this.forecast.mostRows }, recorder);
      },
    });
    this.standing = new StandingRun({
      open: (computed) => this.openStanding(computed),
      through: (run) => host.through(run),
    });
    this.ledger = new ByteLedger(rowLedgerBytes(opened, decoder.vocabularySize));
    this.grammars = new Grammars(loadAddon(), tokenizer, decoder.vocabularySize, sharesModel(opened.grid));
    this.heapLimit = new HeapLimit(opened.reserved.heapLimitBytes).start();
  }

  /** The longest row that can be computed: of an encoder one that a square holds. */
  private get rowLimit(): RowLimit {
    const { rowLimit } = this.pool;
    const { wholeRows, tokensPerSquare } = this.opened.grid;
    return wholeRows !== undefined && tokensPerSquare < rowLimit.tokens
      ? { tokens: tokensPerSquare, by: 'square' }
      : rowLimit;
  }

  /** @throws UsageError for what can be told before a row is read */
  check(rows: unknown, options: RunOptions): void {
    this.checkOpen();
    refuseEncoder('generate', this.host.source);
    checkRunOptions(options, this.host.source.decoder.vocabularySize);
    checkRows(rows);
    this.checkComposed(options);
  }

  /** @throws UsageError */
  private checkComposed(options: RunOptions): void {
    const { grid, settings } = this.opened;
    checkLayers(grid, options, options.schedule?.name ?? settings.block.schedule);
    if (options.peers && !sharesModel(grid)) checkMovesPages(this.opened);
  }

  /** A run that generates. */
  generation(rows: AsyncIterable<RowInput> | Iterable<RowInput>, given: RunOptions): Generation {
    this.check(rows, given);
    const { options, refine } = withSchema({ ...given, now: given.now === undefined ? new Date() : given.now });
    return this.composed(options, (inFlight, recorder, lastAnswers) => {
      const answers = SharedAnswers.of<'generate', RowResult>('generate', recorder, options, lastAnswers);
      const {
        pool,
        host: { tokenizer, source },
        resultIdentityKey: identity,
      } = this;
      const rowsOfRun = madeOf(rows, (input, ended) =>
        intake(input, {
          ended,
          options,
          tokenizer,
          limits: source.decoder,
          // Asked for each row: peers may have less memory than is here.
          rowLimit: () => pool.rowLimit,
          inFlight,
          recorder,
          answers,
          resultIdentity: identity,
          answerFormat: (format) => this.grammars.of(format),
          refine,
        }),
      );
      return { source: rowsOfRun, answered$: answers.results$ };
    });
  }

  /** A run that scores a text in windows. */
  scoring(tokens: readonly number[], options: PerplexityOptions): Run<WindowScore> {
    this.checkOpen();
    checkLayers(this.opened.grid);
    refuseEncoder('perplexity', this.host.source);
    const { window, promptTokens, signal } = checkPerplexity(tokens, options, this.host.source.decoder);
    const longest = Math.min(window, tokens.length);
    const { rowLimit } = this.pool;
    if (longest - 1 > rowLimit.tokens) throw new UsageError(`window: found ${window}, but ${rowLimitWords(rowLimit)}`);
    const schedule = diagonalBlock();
    return this.start<WindowScore>(
      this.feed(scoredWindows(tokens, window, promptTokens), {}),
      { schedule, signal },
      this.recorder(schedule.name, {}),
    );
  }

  /** Ends all runs with InterruptedError, waits for the device, frees everything. Idempotent. */
  close(): Promise<void> {
    this.closing ??= (async () => {
      const runs = [...this.underWay];
      for (const run of runs) run.fail(new InterruptedError(CLOSED));
      this.closed.abort(CLOSED);
      await this.peers.close();
      await Promise.all(runs.map((run) => run.drained));
      await this.device.close();
      await this.forecast.learned();
      this.heapLimit.stop();
    })();
    return this.closing;
  }

  /** Results of rows that `read` makes of an input: in the run that calls join, or in one of its own. */
  private composed<Result extends { readonly carry?: unknown }>(
    options: RunOptions,
    read: ReadOfRun<Result>,
  ): Generation<Result> {
    const { grid, settings } = this.opened;
    const places = grid.slots * grid.rowsPerSlot;
    const ahead = settledLookAhead(options.lookAhead);
    // Rows that are generated, that wait, and that may pass one of these; and their results.
    const inFlight = new InFlight(2 * (places + ahead.rows) + ORDER_WINDOW, this.ledger.account(ahead.bytes));
    const schedule = this.promising(options.schedule ?? BLOCK_SCHEDULES[settings.block.schedule].create());
    const made = joins(options)
      ? this.joined(options, inFlight, read)
      : this.alone({ ...options, schedule }, inFlight, read);
    const { answered$, computed, settled, drained } = made;
    void drained.then(() => {
      inFlight.close();
    });
    return {
      computed,
      settled,
      options,
      closed: this.closed.signal,
      answered$,
      // What a result carries its row has brought.
      answered: ({ sequence, result }) => {
        inFlight.answered(sequence, heldBytes(result, inFlight.mostBytes, result.carry));
      },
      delivered: (sequence) => {
        inFlight.leave(sequence);
      },
    };
  }

  /** A call in the run that all calls join which say nothing of how theirs should be composed. */
  private joined<Result extends { readonly carry?: unknown }>(
    options: RunOptions,
    inFlight: InFlight,
    read: ReadOfRun<Result>,
  ): MadeRun<Result> {
    this.checkOpen();
    const { priority, sharePrefixes, signal } = options;
    const { schedule } = this.opened.settings.block;
    const joins = this.standing.recorder;
    const recorder = this.recorder(schedule, options, { timings: this.standingTimings, joins });
    const { source, answered$ } = read(inFlight, recorder, this.standingAnswers);
    const call = this.standing.call({ feed: this.feed(source, options), recorder, priority, sharePrefixes, signal });
    return { answered$, computed: () => call.results$, settled: () => call.settled(), drained: call.drained };
  }

  /** A run for one call. */
  private alone<Result extends { readonly carry?: unknown }>(
    options: RunOptions & { readonly schedule: Schedule },
    inFlight: InFlight,
    read: ReadOfRun<Result>,
  ): MadeRun<Result> {
    const { schedule, pipeline } = options;
    const timings = this.forecast.timings(schedule.name, pipeline !== undefined);
    const recorder = this.recorder(schedule.name, options, { timings });
    const { source, answered$ } = read(inFlight, recorder);
    const ring = sharesModel(this.opened.grid) ? options.peers : undefined;
    // A row is judged by what the engines of the other layers hold, too.
    if (ring) inFlight.hold();
    const joined = (): void => {
      inFlight.letGo();
    };
    const prompted = options.peers && !ring ? this.peers.prompted(source, options.peers) : undefined;
    const run = this.start<Ordered<Result>>(
      this.feed(prompted ?? source, options),
      { ...options, peers: ring, mostRows: this.forecast.mostRows, joined },
      recorder,
    );
    if (prompted)
      void run.drained.then(() => {
        prompted.close();
      });
    this.learnFrom(run, timings);
    return {
      answered$,
      computed: () => this.host.through(run, pipeline),
      settled: () => run.settled(),
      drained: run.drained,
    };
  }

  /** Begins the run that calls join. */
  private openStanding(computed: RecorderSetup['computed']): ReturnType<StandingRunSetup['open']> {
    const name = this.opened.settings.block.schedule;
    const schedule = this.promising(BLOCK_SCHEDULES[name].create());
    const timings = this.forecast.timings(name, false);
    this.standingTimings = timings;
    const answers = (this.standingAnswers = new LastAnswers());
    const recorder = this.recorder(name, {}, { timings, computed });
    const run = this.start<unknown>(undefined, { schedule, mostRows: this.forecast.mostRows }, recorder);
    this.learnFrom(run, timings);
    void run.drained.then(() => {
      if (this.standingAnswers === answers) this.standingAnswers = undefined;
    });
    return { run, recorder };
  }

  /** A schedule with what it promises of rows, as far as these rows keep it. */
  private promising(schedule: Schedule): Schedule {
    return this.opened.grid.wholeRows === undefined ? schedule : withoutPromise(schedule);
  }

  private learnFrom({ drained }: Pick<Run<unknown>, 'drained'>, timings: SeenRun['timings']): void {
    this.forecast.began(timings);
    void drained.then(() => {
      this.forecast.ended(timings);
    });
  }

  private feed<Result>(
    rows: AsyncIterator<RunRow<Result>>,
    { lookAhead }: Pick<RunOptions, 'lookAhead'>,
  ): RowFeed<Result> {
    const { grid } = this.opened;
    const ahead = settledLookAhead(lookAhead);
    return new RowFeed(rows, grid.slots * grid.rowsPerSlot + ahead.rows, ahead.bytes);
  }

  /** @param feed the rows of a run that is one call */
  private start<Result>(feed: RowFeed<Result> | undefined, options: StartOptions, recorder: RunRecorder): Run<Result> {
    const { gpu, cache } = this.opened;
    const { schedule, mostRows, peers, microBatches, joined, sharePrefixes = true } = options;
    if (peers) checkAlone(peers, this.ringRun);
    const run = new Run<Result>({
      ...this.setup(options, recorder),
      schedule,
      // Not beside a GPU with pages on disk, which attends to those in memory alone: shared ones are there.
      // Nor where layers remember a state, which is each row's own.
      sharePrefixes:
        sharePrefixes && cache.states === undefined && !(gpu && hostAttends(gpu) && this.pool.disk.share > 0),
      feed,
      mostRows,
      // Longer than this signals, timers and sockets do not wait for rows that end together.
      turnMilliseconds: 20,
      ...(peers && { peers, begin: beginOf(this.peers.facts), microBatches, joined }),
    });
    if (peers) this.ringRun = run;
    this.track(run);
    return run;
  }

  /**
   * Collects the parts that every run takes of this engine. @throws UsageError if it has been closed by a callback of
   * the caller's, which have run since the options were checked
   */
  private setup(
    { window = defaultWindow(this.opened.grid), signal }: Pick<StartOptions, 'window' | 'signal'>,
    recorder: RunRecorder,
  ): SquareRunSetup {
    this.checkOpen();
    const { device, movement, pool, opened } = this;
    return { id: this.nextRun++, device, grid: opened.grid, movement, pool, window, recorder, signal };
  }

  private track(run: Pick<Run<unknown>, 'fail' | 'drained'>): void {
    this.underWay.add(run);
    void run.drained.then(() => this.underWay.delete(run));
  }

  private recorder(
    schedule: string,
    options: RecordedOptions,
    of: Pick<RecordedRun, 'timings' | 'computed' | 'joins'> = {},
  ): RunRecorder {
    const { forecast, pool } = this;
    const { source, tokenizer, loadSeconds } = this.host;
    const run = { model: source.path, beginToken: tokenizer.beginToken, loadSeconds, forecast, pool, schedule, ...of };
    return recorderOf(this.opened, run, options);
  }

  private checkOpen(): void {
    if (this.closing) throw new UsageError('the engine is closed');
  }
}

interface StartOptions {
  readonly schedule: Schedule;
  readonly mostRows?: (() => number) | undefined;
  readonly window?: number;
  readonly peers?: Peers | undefined;
  readonly microBatches?: number;
  readonly joined?: () => void;
  readonly sharePrefixes?: boolean;
  readonly signal?: AbortSignal | undefined;
}
