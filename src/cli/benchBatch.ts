import { Engine, InterruptedError, zigZagBlock, type EngineOptions, type RunStats } from './library.js';
import { StepTimes, type StepFigures } from './StepTimes.js';

export interface BenchWork {
  readonly batchSize: number;
  readonly promptTokens: number;
  readonly maxNewTokens: number;
  readonly vocabularySize: number;
  /** For opening the model and all rounds; the first round is cut off then. */
  readonly seconds: number;
}

/** The results of one batch size: medians over the rounds. */
export interface BatchFigures {
  readonly batchSize: number;
  readonly rounds: number;
  /** True where a round came to its end. If not, the figures are of the part that was done. */
  readonly complete: boolean;
  /** null: time was up before there was any. */
  readonly promptTokensPerSecond: number | null;
  readonly generatedTokensPerSecond: number | null;
  readonly secondsPerStep: number | null;
  readonly loadSeconds: number;
  /** Most bytes in use, by tier. */
  readonly memoryBytes: Readonly<Record<string, number>>;
}

/**
 * Measures one batch size: rounds of as many rows as a batch has, again and again while there is time for one more.
 *
 * @throws MemoryBudgetError if such a batch does not fit; InterruptedError if `signal` fires
 */
export async function benchBatch(options: EngineOptions, work: BenchWork, signal: AbortSignal): Promise<BatchFigures> {
  const deadline = performance.now() + work.seconds * 1000;
  const engine = await Engine.open({ ...options, batchSize: work.batchSize, batches: 1, signal });
  try {
    const rounds: StepFigures[] = [];
    let complete = false;
    let stats: RunStats | undefined;
    let lastMilliseconds = 0;
    do {
      const start = performance.now();
      // Rounds after the first are begun only with time for them, and come to their end.
      const limit = rounds.length === 0 ? AbortSignal.timeout(Math.max(1, Math.ceil(deadline - start))) : undefined;
      const round = await benchRound(engine, work, signal, limit);
      rounds.push(round.figures);
      stats = round.stats;
      complete ||= round.complete;
      lastMilliseconds = performance.now() - start;
    } while (complete && performance.now() + lastMilliseconds < deadline);
    return {
      batchSize: work.batchSize,
      rounds: rounds.length,
      complete,
      promptTokensPerSecond: medianOf(rounds, ({ prefilledTokens, prefillSeconds }) =>
        rate(prefilledTokens, prefillSeconds),
      ),
      generatedTokensPerSecond: medianOf(rounds, ({ decodedTokens, decodeSeconds }) =>
        rate(decodedTokens, decodeSeconds),
      ),
      secondsPerStep: medianOf(rounds, ({ decodeSeconds, steps }) => rate(decodeSeconds, steps)),
      loadSeconds: engine.loadSeconds,
      memoryBytes: Object.fromEntries(
        Object.entries(stats?.memory ?? {}).map(([tier, { peakBytes }]) => [tier, peakBytes]),
      ),
    };
  } finally {
    await engine.close();
  }
}

interface Round {
  readonly figures: StepFigures;
  readonly stats: RunStats | undefined;
  readonly complete: boolean;
}

async function benchRound(
  engine: Engine,
  work: BenchWork,
  signal: AbortSignal,
  limit: AbortSignal | undefined,
): Promise<Round> {
  const steps = new StepTimes(work.promptTokens);
  let stats: RunStats | undefined;
  const results = engine.generate(randomRows(work), {
    maxNewTokens: work.maxNewTokens,
    ignoreEos: true,
    // All rows at once, so that prompts come first and the steps are of full batches.
    schedule: zigZagBlock(),
    signal: limit === undefined ? signal : AbortSignal.any([signal, limit]),
    onTrace: (event) => {
      steps.add(event);
    },
    onStats: (final) => {
      stats = final;
    },
  });
  try {
    for await (const { error } of results) if (error !== undefined) throw new Error(error.message);
  } catch (error) {
    if (!(error instanceof InterruptedError) || signal.aborted || limit?.aborted !== true) throw error;
    return { figures: steps.figures(), stats, complete: false };
  }
  return { figures: steps.figures(), stats, complete: true };
}

/** Prompts of ids that are different in every row, the same in every run. */
function* randomRows({ batchSize, promptTokens, vocabularySize }: BenchWork): Generator<{ tokens: number[] }> {
  let state = 1;
  for (let row = 0; row < batchSize; row++) {
    yield {
      tokens: Array.from({ length: promptTokens }, () => {
        // A linear congruential generator; its high bits are good enough for choosing tokens.
        state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
        return Math.floor((state / 2 ** 32) * vocabularySize);
      }),
    };
  }
}

function rate(amount: number, seconds: number): number | null {
  return amount > 0 && seconds > 0 ? amount / seconds : null;
}

function medianOf(rounds: readonly StepFigures[], of: (figures: StepFigures) => number | null): number | null {
  const values = rounds
    .map(of)
    .filter((value) => value !== null)
    .sort((a, b) => a - b);
  const middle = values.length >> 1;
  const [upper, lower] = [values[middle], values[values.length % 2 === 1 ? middle : middle - 1]];
  return upper === undefined || lower === undefined ? null : (upper + lower) / 2;
}
