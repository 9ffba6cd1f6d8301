import type { Work } from '../../collections/drained.js';
import type { RowResult } from '../../Row.js';
import type { DeviceRow } from '../grid/Device.js';
import type { RowId } from '../grid/Square.js';
import type { HeadOutput } from '../grid/Task.js';
import { Continuation, type RunRow } from '../execution/RunRow.js';
import type { ActiveRow, OrderedResult, RowCounter } from './ActiveRow.js';
import type { ChosenRow } from './ChosenRow.js';
import { generatorSeed, type PreparedRow } from './prepareRow.js';
import type { Retry } from './retryPrompts.js';

/** The parts that the attempts of a row have in common. */
export interface Attempts {
  readonly prepared: PreparedRow;
  readonly retry: Retry;
  /** The seed of the first attempt, with all of its bits. */
  readonly seed: number;
  /** An attempt as a row of its own. @param over what becomes of a result that another row finds for it */
  readonly row: (
    prepared: PreparedRow,
    counter: RowCounter,
    onAnswer: (answer: RowResult) => void,
    over: (ended: OrderedResult) => OrderedResult | Continuation<OrderedResult>,
  ) => ActiveRow | ChosenRow;
  readonly counter: RowCounter;
  /** Called with the last answer before a value is made of it. */
  readonly onAnswer: (answer: RowResult) => void;
  /** Called with what the row comes to. */
  readonly onResult?: (result: RowResult) => void;
  /** Makes a prompt without keeping others from their turn. */
  readonly made: <T>(work: Work<T>) => T | Promise<T>;
}

/** A row that is tried again where its answer fails its format: one attempt of it, after which the next one comes. */
export class RetriedRow implements RunRow<OrderedResult> {
  private readonly row: ActiveRow | ChosenRow;
  private answer: RowResult | undefined;
  private counted: Parameters<RowCounter['row']> | undefined;

  /** @param attempt from 0 @param began when the first one had its place */
  constructor(
    private readonly attempts: Attempts,
    private readonly attempt = 0,
    prepared = attempts.prepared,
    private began?: number,
  ) {
    const counter: RowCounter = {
      token: () => {
        attempts.counter.token();
      },
      row: (...counted) => {
        this.counted = counted;
      },
    };
    this.row = attempts.row(
      prepared,
      counter,
      (answer) => {
        this.answer = answer;
      },
      (ended) => this.over(ended),
    );
  }

  get sequence(): DeviceRow {
    return this.row.sequence;
  }

  get newTokens(): number {
    return this.row.newTokens;
  }

  begin(): void {
    this.began ??= performance.now();
    this.row.begin(this.began);
  }

  accept(head: HeadOutput, row: RowId): OrderedResult | Continuation<OrderedResult> | undefined {
    const ended = this.row.accept(head, row);
    return !ended || ended instanceof Continuation ? ended : this.over(ended);
  }

  private over({ sequence, result }: OrderedResult): OrderedResult | Continuation<OrderedResult> {
    const { retry, counter, onAnswer } = this.attempts;
    if (result.error?.code === 'schema' && this.attempt < retry.most)
      return new Continuation([], this.next(result.text, result.error.message));
    if (this.counted) counter.row(...this.counted);
    if (this.answer) onAnswer(this.told(this.answer));
    const told = this.told(result);
    this.attempts.onResult?.(told);
    return { sequence, result: told };
  }

  /** With how many attempts it took; the prompt is the row's own. Members stand as results are written. */
  private told({ usage, carry, ...result }: RowResult): RowResult {
    const { length } = this.attempts.prepared.tokens;
    return {
      ...result,
      // What failed on the way says none.
      usage: { ...usage, promptTokens: Math.min(usage.promptTokens, length) },
      attempts: this.attempt + 1,
      ...(carry && { carry }),
    };
  }

  private async next(answer: string, problem: string): Promise<readonly RetriedRow[]> {
    const { attempts } = this;
    const { prepared, retry, seed } = attempts;
    const attempt = this.attempt + 1;
    const tokens = await attempts.made(retry.prompt(answer, problem));
    const again = { ...prepared, tokens, temperature: retry.temperature, seed: generatorSeed(seed + attempt) };
    return [new RetriedRow(attempts, attempt, again, this.began)];
  }
}
