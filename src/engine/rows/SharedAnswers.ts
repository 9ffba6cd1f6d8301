import { Subject, type Observable } from 'rxjs';
import { found } from '../../arguments/found.js';
import { membersOf } from '../../arguments/membersOf.js';
import { UsageError } from '../../errors/UsageError.js';
import type { AnswerStore, KeptAnswer, RowResult } from '../../Row.js';
import { withValue, type AnswerFormat } from '../grammar/AnswerFormat.js';
import type { OrderedResult, RowIdentity } from './ActiveRow.js';
import { RecentAnswers, type Answer, type AnswerBounds } from './RecentAnswers.js';

/** A row, and what its answer is made into. */
export interface HeldRow extends RowIdentity {
  readonly format?: AnswerFormat;
}

/** Who counts rows that were answered with another's answer, of this run or of an earlier one. */
export interface AnswerCounter {
  equal(result: RowResult): void;
  reused(): void;
}

/**
 * Rows of a run that need no computing. The first of a key is computed, and those that come before it has its answer wait for that; an error is shared as well: what
 * is wrong with one is with all. Those that come later find it among the last answers, and what is kept from earlier runs is there at once.
 */
export class SharedAnswers {
  private readonly results = new Subject<OrderedResult>();
  /** By the key of a row that is under way: those that wait for its answer. */
  private readonly waiting = new Map<string, HeldRow[]>();
  private readonly recent: RecentAnswers | undefined;
  /** Answers that are on their way into the store. */
  private storing = 0;
  private inputEnded = false;

  /**
   * @param joinsEqual rows that are equal are computed once: as long as the answer is among the last ones, so many and so large
   * @param store what is kept from earlier runs, and for later ones
   */
  constructor(
    private readonly counter: AnswerCounter,
    joinsEqual: AnswerBounds | false,
    private readonly store?: AnswerStore,
  ) {
    if (joinsEqual) this.recent = new RecentAnswers(joinsEqual);
  }

  /** Whether it matters which rows are equal. */
  get needsKeys(): boolean {
    return this.recent !== undefined || this.store !== undefined;
  }

  /** Results that the run itself does not make; completes when the input has ended, and nobody waits any more. */
  get results$(): Observable<OrderedResult> {
    return this.results;
  }

  /** A row that needs no computing: it was refused. */
  refused(result: OrderedResult): void {
    this.results.next(result);
  }

  /** Whether the row has its answer from another; else it is the one that others wait for from now on. @throws what the store throws */
  async has(key: string, row: HeldRow, promptTokens: number): Promise<boolean> {
    const others = this.waiting.get(key);
    if (others) {
      others.push(row);
      return true;
    }
    const recent = this.recent?.get(key);
    if (recent) {
      this.equal(row, recent);
      return true;
    }
    const kept = checkedAnswer(await this.store?.get(key));
    if (kept) {
      const usage = { promptTokens, completionTokens: kept.tokens.length };
      this.counter.reused();
      this.results.next({ sequence: row.sequence, result: answerFor(row, { ...kept, usage }) });
      return true;
    }
    if (this.recent) this.waiting.set(key, []);
    return false;
  }

  /** The row of the key has its answer. */
  answered(key: string, result: RowResult): void {
    const others = this.waiting.get(key) ?? [];
    this.waiting.delete(key);
    const { text, reasoning, tokens, finishReason, logprobs } = result;
    if (finishReason !== 'error') {
      this.recent?.put(key, { finishReason, ...answerOf(result) });
      this.stored(this.store?.put(key, { text, ...(reasoning !== undefined && { reasoning }), tokens, finishReason, ...(logprobs && { logprobs }) }));
    }
    for (const row of others) this.equal(row, result);
    this.completeIfOver();
  }

  private equal(row: HeldRow, answer: Answer | RowResult): void {
    const result = answerFor(row, answer);
    this.counter.equal(result);
    this.results.next({ sequence: row.sequence, result });
  }

  private stored(stored: void | Promise<void>): void {
    if (!(stored instanceof Promise)) return;
    this.storing++;
    stored.then(
      () => {
        this.storing--;
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
    if (this.inputEnded && this.waiting.size === 0 && this.storing === 0) this.results.complete();
  }
}

/** A row's own copy of another's answer: whoever gets one may do with it as they like. */
function answerFor({ id, index, sample, carry, format }: HeldRow, answer: Answer | RowResult): RowResult {
  const { finishReason } = answer;
  const error = 'error' in answer ? answer.error : undefined;
  const result = { id, index, ...(sample !== undefined && { sample }), finishReason, ...answerOf(answer), ...(error && { error: { ...error } }), ...(carry && { row: carry }) };
  return withValue(result, format);
}

/** What the model answered, as a copy. */
function answerOf({ text, reasoning, tokens, usage, logprobs }: Answer | RowResult): Pick<RowResult, 'text' | 'reasoning' | 'tokens' | 'usage' | 'logprobs'> {
  return {
    text, ...(reasoning !== undefined && { reasoning }), tokens: [...tokens], usage: { ...usage },
    ...(logprobs && { logprobs: logprobs.map(({ top, ...each }) => ({ ...each, top: top.map((other) => ({ ...other })) })) }),
  };
}

/** What a store has given, which may be anybody's. @throws UsageError */
function checkedAnswer(kept: unknown): KeptAnswer | undefined {
  if (kept === undefined) return undefined;
  const { text, reasoning, tokens, finishReason } = membersOf(kept);
  const texts = typeof text === 'string' && (reasoning === undefined || typeof reasoning === 'string');
  if (texts && Array.isArray(tokens) && (finishReason === 'stop' || finishReason === 'length')) return kept as KeptAnswer;
  throw new UsageError(`reuse: found ${found(kept)} from get, expected undefined or an answer with text, tokens and a finishReason of stop or length`);
}
