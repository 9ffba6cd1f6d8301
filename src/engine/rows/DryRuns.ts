import { ByteLedger } from '../../collections/ByteLedger.js';
import type { Addon } from '../../bindings/Addon.js';
import { ROW_LIMITS } from '../../model/files/limits.js';
import type { ModelSource } from '../../model/ModelSource.js';
import type { Tokenizer } from '../../model/Tokenizer.js';
import type { ResultBase } from '../../Results.js';
import type { GenerateOptions, RowFailure, RowInput, RowResult } from '../../Row.js';
import { RunRecorder } from '../execution/RunRecorder.js';
import type { RunRow } from '../execution/RunRow.js';
import { Grammars } from '../grammar/Grammars.js';
import { IdSet } from '../../collections/IdSet.js';
import { RowError } from '../../errors/RowError.js';
import { askedRow } from '../../rows/askedRow.js';
import { settledQuestions, type SettledQuestion } from '../../rows/questions.js';
import { readableRow } from '../../rows/readableRow.js';
import { withSchema } from '../grammar/zodSchema.js';
import type { RowLimit } from '../memory/PagePool.js';
import type { Ordered } from './ActiveRow.js';
import { answerIntake } from './answerIntake.js';
import type { AnswerKind, Answers } from './Answers.js';
import { answerTaskOf, refuseEncoder } from './AnswerRuns.js';
import { checkAnswerOptions } from './checkAnswerOptions.js';
import { checkRunOptions } from './checkRunOptions.js';
import { InFlight } from './InFlight.js';
import { intake } from './intake.js';
import { SharedAnswers } from './SharedAnswers.js';

/** An answer that a run would compute: of a row that is asked for samples each is one; or why there is none. */
export type DryRow = { readonly id: string | number; readonly index: number } & (
  | { readonly prompt: readonly number[]; /** Most tokens of the answer. */ readonly newTokens: number }
  | { readonly error: RowFailure }
);

/** What rows are taken in with. */
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
    const asked = given.questions === undefined ? rows : askedOf(rows, settledQuestions('questions', given.questions));
    return takenIn<'generate', RowResult>('generate', asked, (input, common) =>
      intake(input, {
        ...common,
        options,
        tokenizer,
        limits: source.decoder,
        rowLimit: () => rowLimit,
        answerFormat: (format) => this.grammars.of(format),
        refine,
      }),
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

/** What stands for answers that there are none of yet. */
const UNKNOWN = '…';

/** Rows as they would be asked each question, one after the other. */
async function* askedOf(rows: Rows, questions: readonly SettledQuestion[]): AsyncGenerator<RowInput, void, undefined> {
  const answers = new Map(questions.map(({ name }) => [name, UNKNOWN]));
  const ids = new IdSet();
  let number = 0;
  for await (const given of rows) {
    const row = readableRow(given);
    const index = row.index ?? number;
    number += 1;
    const who = { ...row, id: row.id ?? index + 1, index };
    const duplicate = row.duplicate ?? (row.id !== undefined && !ids.add(row.id));
    if ('error' in who || duplicate) {
      yield { ...who, duplicate };
      continue;
    }
    for (const question of questions) {
      try {
        yield { ...askedRow(who, question, answers), duplicate };
      } catch (error) {
        if (!(error instanceof RowError)) throw error;
        yield { id: who.id, index, duplicate, error: { code: error.rowCode, message: error.message } };
        break;
      }
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
  let sequence = 0;
  answers.results$.subscribe(({ result }) => {
    if (result.error) refused.push({ id: result.id, index: result.index, error: result.error });
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
    for await (const { sequence: row, newTokens } of rowsOf(told(), {
      inFlight,
      recorder,
      answers,
      resultIdentity: '',
    })) {
      yield* refusedBefore();
      inFlight.leave(sequence++);
      yield { ...current, prompt: row.tokens, newTokens };
    }
    yield* refusedBefore();
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
