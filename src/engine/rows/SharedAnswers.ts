import type { VectorType } from '../../Results.js';
import type { Work } from '../../collections/drained.js';
import { inTurns } from '../../collections/inTurns.js';
import { isThenable } from '../../arguments/isThenable.js';
import { Subject, type Observable } from 'rxjs';
import type { AnswerStore, GeneratedAnswer, KeptAnswers } from '../../KeptAnswer.js';
import type { ResultBase } from '../../Results.js';
import type { GenerateOptions, RowFailure } from '../../Row.js';
import type { Ordered } from './ActiveRow.js';
import { copyOf, RecentAnswers } from './RecentAnswers.js';
import type { Composition } from './Generation.js';
import { settledLookAhead, type RowLookAhead } from './rowLookAhead.js';
import { found } from '../../arguments/found.js';
import { isObject, membersOf } from '../../arguments/isObject.js';
import { UsageError } from '../../errors/UsageError.js';

type Task = keyof KeptAnswers;
/**
 * The part of a result that is not its row's: the answer, or why there is none and what is told beside that; and what
 * it took.
 */
export type Outcome<Of extends Task> = Pick<ResultBase, 'usage'> &
  ({ readonly answer: KeptAnswers[Of] } | { readonly error: RowFailure; readonly beside?: object });

/** A row, and what becomes of it with an answer that is there already. */
export interface HeldRow<Of extends Task, Result> {
  readonly sequence: number;
  /** Counts what the row would have taken. */
  usage(answer: KeptAnswers[Of]): ResultBase['usage'];
  /** @param outcome the row's own */
  result(outcome: Outcome<Of>): Result;
}

/** Who counts rows that were answered with another's answer, of this run or of an earlier one. */
export interface AnswerCounter {
  equal(result: Pick<ResultBase, 'error'>): void;
  reused(result: Pick<ResultBase, 'error'>): void;
}

function recentAnswers<Of extends Task>(lookAhead?: RowLookAhead): RecentAnswers<Outcome<Of>> {
  const { rows, answerBytes: bytes } = settledLookAhead(lookAhead);
  return new RecentAnswers({ rows, bytes });
}

/**
 * The last answers of all calls that are in a run together, by their tasks: a row has the answer that an equal one of
 * another call has got already. While that one is computed it is computed, too: no call waits for another one.
 */
export class LastAnswers {
  private readonly tasks: { -readonly [Of in Task]?: RecentAnswers<Outcome<Of>> } = {};

  of<Of extends Task>(task: Of): RecentAnswers<Outcome<Of>> {
    const tasks: { [Each in Of]?: RecentAnswers<Outcome<Each>> } = this.tasks;
    return (tasks[task] ??= recentAnswers<Of>());
  }
}

/**
 * Rows of a run that need no computing, whatever they are asked. The first of a key is computed, and those that come
 * before it has its answer wait for that; an error is shared as well: what is wrong with one is with all. Those that
 * come later find it among the last answers, and what is kept from earlier runs is there at once.
 */
export class SharedAnswers<Of extends Task, Result extends ResultBase> {
  private readonly results = new Subject<Ordered<Result>>();
  /** By the key of a row that is under way: those that wait for its answer. */
  private readonly waiting = new Map<string, HeldRow<Of, Result>[]>();
  /** Answers that are on their way into the store, or to the rows that wait for them. */
  private underWay = 0;
  private inputEnded = false;

  /**
   * @param recent rows that are equal are computed once: as long as the answer is among these, the last ones
   * @param store what is kept from earlier runs, and for later ones
   */
  constructor(
    private readonly task: Of,
    private readonly counter: AnswerCounter,
    private readonly recent: RecentAnswers<Outcome<Of>> | undefined,
    private readonly store?: AnswerStore,
  ) {}

  /**
   * Makes the shared answers of a run with these options.
   * @param lastAnswers of all calls in the run, where they share them
   */
  static of<Of extends Task, Result extends ResultBase>(
    task: Of,
    counter: AnswerCounter,
    {
      sharePrefixes = true,
      lookAhead,
      reuse,
    }: Pick<Composition, 'sharePrefixes' | 'lookAhead'> & Pick<GenerateOptions, 'reuse'>,
    lastAnswers?: LastAnswers,
  ): SharedAnswers<Of, Result> {
    const shared = lookAhead === undefined ? lastAnswers : undefined;
    const recent = (): RecentAnswers<Outcome<Of>> => shared?.of(task) ?? recentAnswers(lookAhead);
    return new SharedAnswers(task, counter, sharePrefixes ? recent() : undefined, reuse);
  }

  /** Tells whether it matters which rows are equal. */
  get needsKeys(): boolean {
    return this.recent !== undefined || this.store !== undefined;
  }

  /** Results that the run itself does not make; completes when the input has ended, and nobody waits any more. */
  get results$(): Observable<Ordered<Result>> {
    return this.results;
  }

  /** A row that needs no computing: it was refused. */
  refused(result: Ordered<Result>): void {
    this.results.next(result);
  }

  /**
   * Tells whether the row has its answer from another; else it is the one that others wait for from now on. @throws
   * what the store throws
   */
  async has(key: string, row: HeldRow<Of, Result>): Promise<boolean> {
    const others = this.waiting.get(key);
    if (others) {
      others.push(row);
      return true;
    }
    const recent = this.recent?.get(key);
    if (recent) {
      this.counter.equal(countedOf(recent));
      this.give(row, recent);
      return true;
    }
    const kept = keptAnswer(this.task, await this.store?.get(key));
    if (kept) {
      const result = row.result({ answer: copyOf(kept), usage: row.usage(kept) });
      this.counter.reused(result);
      this.results.next({ sequence: row.sequence, result });
      return true;
    }
    if (this.recent) this.waiting.set(key, []);
    return false;
  }

  /** The row of the key has its answer. @param outcome that row's own */
  answered(key: string, outcome: Outcome<Of>): void {
    const others = this.waiting.get(key) ?? [];
    this.waiting.delete(key);
    // Whoever gets the row's own may change it before all others have theirs.
    const kept = this.recent ? copyOf(outcome) : outcome;
    if ('answer' in outcome) {
      this.recent?.put(key, kept);
      this.pending(this.store?.put(key, outcome.answer));
    }
    // At once: the run's figures are told when its last row has ended, and what these rows get may come after that.
    for (let left = others.length; left > 0; left--) this.counter.equal(countedOf(kept));
    this.pending(inTurns(this.answerAll(others, kept)));
    this.completeIfOver();
  }

  private *answerAll(rows: readonly HeldRow<Of, Result>[], outcome: Outcome<Of>): Work<void> {
    for (const row of rows) {
      if (!this.results.observed) return;
      this.give(row, outcome);
      yield;
    }
  }

  private give(row: HeldRow<Of, Result>, outcome: Outcome<Of>): void {
    this.results.next({ sequence: row.sequence, result: row.result(copyOf(outcome)) });
  }

  private pending(work: unknown): void {
    if (!isThenable(work)) return;
    this.underWay++;
    work.then(
      () => {
        this.underWay--;
        this.completeIfOver();
      },
      (error: unknown) => {
        this.results.error(error);
      },
    );
  }

  /** No further row comes. */
  inputOver(): void {
    this.inputEnded = true;
    this.completeIfOver();
  }

  private completeIfOver(): void {
    if (this.inputEnded && this.waiting.size === 0 && this.underWay === 0) this.results.complete();
  }
}

/** Gives the part of a result that a counter looks at. */
function countedOf(outcome: Outcome<Task>): Pick<ResultBase, 'error'> & { readonly finishReason?: unknown } {
  if ('error' in outcome) return { error: outcome.error };
  return 'finishReason' in outcome.answer ? { finishReason: outcome.answer.finishReason } : {};
}

interface Form<Answer> {
  readonly words: string;
  /** The answer, and nothing else; undefined for what is none. */
  readonly of: (members: Readonly<Record<string, unknown>>) => Answer | undefined;
}

const FORMS: { readonly [Task in keyof KeptAnswers]: Form<KeptAnswers[Task]> } = {
  generate: {
    words: 'text, tokens and a finishReason of stop or length',
    of: ({ text, reasoning, tokens, finishReason, logprobs, attempts, ...certainty }) => {
      const texts = typeof text === 'string' && (reasoning === undefined || typeof reasoning === 'string');
      if (!texts || !Array.isArray(tokens) || (finishReason !== 'stop' && finishReason !== 'length')) return undefined;
      const answer = {
        text,
        ...(reasoning !== undefined && { reasoning }),
        tokens: tokens as number[],
        finishReason,
        ...(typeof attempts === 'number' && { attempts }),
        ...certaintyOf(certainty),
      } as const;
      return Array.isArray(logprobs)
        ? { ...answer, logprobs: logprobs as KeptAnswers['generate']['logprobs'] & object }
        : answer;
    },
  },
  classify: {
    words: 'a label, its probability and probabilities',
    of: ({ label, probability, probabilities }) => {
      if (typeof label !== 'string' || typeof probability !== 'number' || !isObject(probabilities)) return undefined;
      return { label, probability, probabilities: probabilities as KeptAnswers['classify']['probabilities'] };
    },
  },
  score: {
    words: 'scores',
    of: ({ scores }) => (Array.isArray(scores) ? { scores: scores as KeptAnswers['score']['scores'] } : undefined),
  },
  rerank: {
    words: 'scores',
    of: ({ scores }) => (Array.isArray(scores) ? { scores: scores as KeptAnswers['rerank']['scores'] } : undefined),
  },
  embed: {
    words: 'an embedding',
    of: ({ embedding, vectorType, scale }) =>
      Array.isArray(embedding) || typeof embedding === 'string'
        ? {
            embedding: embedding as KeptAnswers['embed']['embedding'],
            ...(vectorType !== undefined && { vectorType: vectorType as VectorType }),
            ...(typeof scale === 'number' && { scale }),
          }
        : undefined,
  },
};

function certaintyOf({
  confidence,
  leastConfidence,
  fieldConfidence,
}: Readonly<Record<string, unknown>>): Pick<GeneratedAnswer, 'confidence' | 'leastConfidence' | 'fieldConfidence'> {
  if (typeof confidence !== 'number' || typeof leastConfidence !== 'number') return {};
  return {
    confidence,
    leastConfidence,
    ...(isObject(fieldConfidence) && {
      fieldConfidence: fieldConfidence as GeneratedAnswer['fieldConfidence'] & object,
    }),
  };
}

/** Reads what a store has given, which may be anybody's, as an answer of a task. @throws UsageError */
function keptAnswer<Task extends keyof KeptAnswers>(task: Task, given: unknown): KeptAnswers[Task] | undefined {
  if (given === undefined) return undefined;
  const { words, of } = FORMS[task];
  const answer = of(membersOf(given));
  if (answer) return answer;
  throw new UsageError(`reuse: found ${found(given)} from get, expected undefined or an answer with ${words}`);
}
