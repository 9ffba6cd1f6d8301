import { Subject, type Observable } from 'rxjs';
import type { AnswerStore, KeptAnswer, RowResult } from '../../Row.js';
import type { OrderedResult, RowIdentity } from './ActiveRow.js';

/** Who counts rows that were answered with another's answer, of this run or of an earlier one. */
export interface AnswerCounter {
  equal(result: RowResult): void;
  reused(): void;
}

/**
 * Rows of a run that need no computing. The first of a key is computed, and those that come before it has its answer wait for that; an error is shared as well: what
 * is wrong with one is with all. And what is kept from earlier runs is there at once.
 */
export class SharedAnswers {
  private readonly results = new Subject<OrderedResult>();
  /** By the key of a row that is under way: those that wait for its answer. */
  private readonly waiting = new Map<string, RowIdentity[]>();
  private inputEnded = false;

  /**
   * @param joinsEqual rows that are equal are computed once
   * @param store what is kept from earlier runs, and for later ones
   */
  constructor(
    private readonly counter: AnswerCounter,
    private readonly joinsEqual: boolean,
    private readonly store?: AnswerStore,
  ) {}

  /** Whether it matters which rows are equal. */
  get needsKeys(): boolean {
    return this.joinsEqual || this.store !== undefined;
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
  async has(key: string, row: RowIdentity, promptTokens: number): Promise<boolean> {
    const others = this.joinsEqual ? this.waiting.get(key) : undefined;
    if (others) {
      others.push(row);
      return true;
    }
    const kept = await this.store?.get(key);
    if (kept) {
      const usage = { promptTokens, completionTokens: kept.tokens.length };
      this.counter.reused();
      this.results.next({ sequence: row.sequence, result: answerFor(row, { ...kept, usage }) });
      return true;
    }
    if (this.joinsEqual) this.waiting.set(key, []);
    return false;
  }

  /** The row of the key has its answer. */
  answered(key: string, result: RowResult): void {
    const others = this.waiting.get(key) ?? [];
    this.waiting.delete(key);
    const { text, reasoning, tokens, finishReason, logprobs } = result;
    if (finishReason !== 'error') this.store?.put(key, { text, ...(reasoning !== undefined && { reasoning }), tokens, finishReason, ...(logprobs && { logprobs }) });
    for (const row of others) {
      const own = answerFor(row, result);
      this.counter.equal(own);
      this.results.next({ sequence: row.sequence, result: own });
    }
    this.completeIfOver();
  }

  /** No further row comes. */
  inputOver(): void {
    this.inputEnded = true;
    this.completeIfOver();
  }

  private completeIfOver(): void {
    if (this.inputEnded && this.waiting.size === 0) this.results.complete();
  }
}

/** A row's own copy of another's answer: whoever gets one may do with it as they like. */
function answerFor({ id, index, sample, carry }: RowIdentity, { text, reasoning, tokens, finishReason, usage, logprobs, error }: (KeptAnswer | RowResult) & Pick<RowResult, 'usage' | 'error'>): RowResult {
  return {
    id, index,
    ...(sample !== undefined && { sample }),
    text, ...(reasoning !== undefined && { reasoning }), tokens: [...tokens], finishReason, usage: { ...usage },
    ...(logprobs && { logprobs: logprobs.map(({ top, ...each }) => ({ ...each, top: top.map((other) => ({ ...other })) })) }),
    ...(error && { error: { ...error } }),
    ...(carry && { row: carry }),
  };
}
