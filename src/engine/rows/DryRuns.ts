import { ByteLedger } from '../../collections/ByteLedger.js';
import type { Addon } from '../../bindings/Addon.js';
import { ROW_LIMITS } from '../../model/files/limits.js';
import type { ModelSource } from '../../model/ModelSource.js';
import type { Tokenizer } from '../../model/Tokenizer.js';
import type { EmbedResult, ResultBase } from '../../Results.js';
import type { GenerateOptions, Row, RowFailure, RowInput, RowResult } from '../../Row.js';
import { RunRecorder } from '../execution/RunRecorder.js';
import type { RunRow } from '../execution/RunRow.js';
import { Grammars } from '../grammar/Grammars.js';
import { IdSet } from '../../collections/IdSet.js';
import { RowError } from '../../errors/RowError.js';
import { settledQuestions } from '../../rows/questions.js';
import { identified } from '../../rows/identified.js';
import { readableRow } from '../../rows/readableRow.js';
import { withSchema } from '../grammar/zodSchema.js';
import type { RowLimit } from '../memory/PagePool.js';
import type { Ordered } from './ActiveRow.js';
import { answerIntake } from './answerIntake.js';
import { AskedRow } from './AskedRow.js';
import { chunkedEmbeddings } from './ChunkedEmbedding.js';
import { chunkedRows } from './ChunkedRow.js';
import type { AnswerKind, Answers } from './Answers.js';
import { answerTaskOf, refuseEncoder } from './AnswerRuns.js';
import { checkAnswerOptions } from './checkAnswerOptions.js';
import { checkRunOptions } from './checkRunOptions.js';
import { InFlight } from './InFlight.js';
import { intake } from './intake.js';
import { SAMPLING_RANGES } from './prepareRow.js';
import { SharedAnswers } from './SharedAnswers.js';
import type { RowSplitter } from './SplitRows.js';

/** An answer that a run would compute: of a row that is asked for samples each is one; or why there is none. */
export type DryRow = { readonly id: string | number; readonly index: number } & (
  | { readonly prompt: readonly number[]; /** Most tokens of the answer. */ readonly newTokens: number }
  | { readonly error: RowFailure }
);

/** The setup with which rows are taken in. */
export interface DryRunsSetup {
  readonly addon: Addon;
  readonly source: ModelSource;
  readonly tokenizer: Tokenizer;
  readonly rowLimit: RowLimit;
}

type Rows = AsyncIterable<RowInput> | Iterable<RowInput>;

/** More than one row, of which none stays. */
const IN_FLIGHT = { rows: 16, bytes: 2 * ROW_LIMITS.rowBytes };

/** Runs that take their rows in as an engine's do, and compute nothing. */
export class DryRuns {
  private readonly grammars: Grammars;

  constructor(private readonly setup: DryRunsSetup) {
    const { addon, tokenizer, source } = setup;
    this.grammars = new Grammars(addon, tokenizer, source.decoder.vocabularySize);
  }

  /** @throws UsageError, ResponseFormatError for what is wrong with all rows; whatever `rows` throws */
  generate(rows: Rows, given: GenerateOptions): AsyncGenerator<DryRow, void, undefined> {
    const { tokenizer, source, rowLimit } = this.setup;
    refuseEncoder('generate', source);
    checkRunOptions(given, source.decoder.vocabularySize);
    const { options, refine } = withSchema({ ...given, now: given.now ?? new Date() });
    const asked = this.split(rows, options);
    const { promptTemplate: _template, ...others } = options;
    const told = options.chunkTokens === undefined ? options : others;
    return takenIn<'generate', RowResult>('generate', asked, (input, common) =>
      intake(input, {
        ...common,
        options: told,
        tokenizer,
        limits: source.decoder,
        rowLimit: () => rowLimit,
        answerFormat: (format) => this.grammars.of(format),
        refine,
      }),
    );
  }

  /** The same of rows that are embedded, in parts where these are asked for. */
  embed(rows: Rows, options: Answers['embed']['options']): AsyncGenerator<DryRow, void, undefined> {
    const { chunkTokens, chunkOverlap: _overlap, ...others } = options;
    if (chunkTokens === undefined) return this.answer('embed', rows, options);
    checkAnswerOptions('embed', options);
    const split = chunkedEmbeddings(options, this.setup.tokenizer);
    const none: EmbedResult = { id: 0, index: 0, usage: NO_USAGE };
    return this.answer(
      'embed',
      splitOf(rows, split, () => none),
      others,
    );
  }

  /** Rows as they are computed: several of one that is asked questions, or that is in parts. */
  private split(rows: Rows, options: GenerateOptions): Rows {
    const { tokenizer, source } = this.setup;
    const { questions, chunkTokens, maxNewTokens = SAMPLING_RANGES.maxNewTokens.fallback } = options;
    const answered = (text: string): RowResult => ({
      id: 0,
      index: 0,
      text,
      tokens: [],
      finishReason: 'stop',
      usage: NO_USAGE,
    });
    if (questions !== undefined) {
      const settled = settledQuestions('questions', questions);
      return splitOf(
        rows,
        (row) => new AskedRow(row, settled),
        () => answered(UNKNOWN),
      );
    }
    if (chunkTokens === undefined) return rows;
    // What merges are told is taken to be as long as an answer may become, and like the row's own text.
    const units = UNITS_PER_TOKEN * maxNewTokens;
    return splitOf(rows, chunkedRows(options, tokenizer, source.decoder), ({ prompt }) =>
      answered(typeof prompt === 'string' ? prompt.slice(-units) : UNKNOWN.repeat(maxNewTokens)),
    );
  }

  /** @throws UsageError for what is wrong with all rows; whatever `rows` throws */
  answer<Kind extends AnswerKind>(
    kind: Kind,
    rows: Rows,
    options: Answers[Kind]['options'],
  ): AsyncGenerator<DryRow, void, undefined> {
    const { tokenizer, source, rowLimit } = this.setup;
    checkAnswerOptions(kind, options);
    const host = { source, tokenizer, limits: source.decoder, rowLimit: () => rowLimit };
    const told = { ...options, now: options.now ?? new Date() };
    // What labels are worth without a row changes no row's length.
    const task = answerTaskOf(kind, told, host, (labels) => Promise.resolve(labels.map(() => 0)));
    return takenIn<Kind, Answers[Kind]['result']>(kind, rows, (input, common) =>
      answerIntake(input, { ...common, task }),
    );
  }
}

/** The text that stands for answers that there are none of yet. */
const UNKNOWN = '…';

/** Units of text that are about a token. */
const UNITS_PER_TOKEN = 4;
const NO_USAGE = { promptTokens: 0, completionTokens: 0 };

/** Rows as they would be split, one after the other. @param answered what stands for the result of one */
async function* splitOf<Result>(
  rows: Rows,
  split: RowSplitter<Result>,
  answered: (row: Row) => Result,
): AsyncGenerator<RowInput, void, undefined> {
  const ids = new IdSet();
  let number = 0;
  for await (const given of rows) {
    const row = readableRow(given);
    const { identity, duplicate } = identified(row, number++, ids);
    if ('error' in row || duplicate) {
      yield { ...row, ...identity, duplicate };
      continue;
    }
    try {
      const parts = await split({ ...row, ...identity });
      for (let next = parts.next(); next; next = parts.next()) {
        yield { ...next.row, ...identity, duplicate };
        if ('error' in next.row) break;
        await next.taken(answered(next.row));
      }
    } catch (error) {
      if (!(error instanceof RowError)) throw error;
      yield { ...identity, duplicate, error: { code: error.rowCode, message: error.message } };
    }
  }
}

interface TakingIn<Kind extends 'generate' | AnswerKind, Result extends ResultBase> {
  readonly inFlight: InFlight;
  readonly recorder: RunRecorder;
  readonly answers: SharedAnswers<Kind, Result>;
  readonly resultIdentity: string;
}

/** @param rowsOf takes rows in, one at a time as they are pulled, and yields those that would be computed */
async function* takenIn<Kind extends 'generate' | AnswerKind, Result extends ResultBase>(
  kind: Kind,
  rows: Rows,
  rowsOf: (rows: AsyncIterable<RowInput>, common: TakingIn<Kind, Result>) => AsyncGenerator<RunRow<Ordered<unknown>>>,
): AsyncGenerator<DryRow, void, undefined> {
  const inFlight = new InFlight(IN_FLIGHT.rows, new ByteLedger(IN_FLIGHT.bytes).account());
  const recorder = new RunRecorder({ model: '', policy: {}, loadSeconds: 0, memory: () => ({}) });
  const answers = new SharedAnswers<Kind, Result>(kind, recorder, undefined);
  const refused: DryRow[] = [];
  let wake = (): void => undefined;
  let sequence = 0;
  answers.results$.subscribe(({ result }) => {
    if (result.error) refused.push({ id: result.id, index: result.index, error: result.error });
    wake();
  });
  let current: Pick<DryRow, 'id' | 'index'> = { id: 0, index: 0 };
  const told = async function* (): AsyncGenerator<RowInput, void, undefined> {
    let number = 0;
    for await (const row of rows) {
      const index = row.index ?? number;
      number += 1;
      current = { id: row.id ?? index + 1, index };
      yield row;
    }
  };
  try {
    const taken = rowsOf(told(), { inFlight, recorder, answers, resultIdentity: '' });
    for (;;) {
      const next = taken.next();
      let step: Awaited<typeof next> | undefined;
      // Rows that are refused one after the other go on their way before there is one that is not.
      while (step === undefined) {
        const woken = new Promise<undefined>((resolve) => {
          wake = () => {
            resolve(undefined);
          };
        });
        step = refused.length > 0 ? undefined : await Promise.race([next, woken]);
        yield* refusedBefore();
      }
      if (step.done === true) return;
      const { sequence: row, newTokens } = step.value;
      inFlight.leave(sequence++);
      yield { ...current, prompt: row.tokens, newTokens };
    }
  } finally {
    inFlight.close();
  }

  function* refusedBefore(): Generator<DryRow, void, undefined> {
    for (const row of refused.splice(0)) {
      inFlight.leave(sequence++);
      yield row;
    }
  }
}
