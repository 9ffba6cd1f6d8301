import { setTimeout as sleep } from 'node:timers/promises';
import { asyncOf } from '../collections/asyncOf.js';
import { cancellable } from '../collections/cancellable.js';
import type { Channel } from '../collections/Channel.js';
import { IdSet } from '../collections/IdSet.js';
import { InOrder } from '../collections/InOrder.js';
import { TaskError } from '../errors/engineErrors.js';
import type { AnyResult } from '../Results.js';
import type { BadRow, Row, RowFailure, RowInput } from '../Row.js';
import { duplicateId } from '../rows/failedResult.js';
import { heldBytes } from '../rows/heldBytes.js';
import { identified, type RowIdentity } from '../rows/identified.js';
import { readableRow } from '../rows/readableRow.js';

/** How much waits for a later model, or for an earlier row, before the models take turns. */
export interface CascadeLimits {
  readonly rows: number;
  readonly bytes: number;
}

/** Rows that could go on wait no longer for others to come, where models take turns at no cost. */
const SLOW_SOURCE_MS = 10;

/** A row that has no result yet. */
export interface OpenRow {
  /** In the order of the input, from 0: what the models know it by. */
  readonly place: number;
  readonly row: Row | BadRow;
  readonly identity: RowIdentity;
  readonly carry: AnyResult['carry'];
  readonly bytes: number;
  /** It is an error whatever a model says. */
  readonly bad: boolean;
}

const SAMPLES: RowFailure = {
  code: 'invalid-parameter',
  message: 'samples: found it in a row of a cascade, expected one answer a row',
};

/** The rows of a cascade between its input, its models and its results; what waits of them is bounded. */
export class CascadeRows<Result extends AnyResult> {
  readonly counts = { done: 0, failed: 0, cut: 0 };
  ended = false;
  private readonly source: Channel<RowInput>;
  private readonly ids = new IdSet();
  /** The rows that a model has. */
  private readonly inModel = new Map<number, OpenRow>();
  /** The rows that wait for the next model. */
  private onward: OpenRow[] = [];
  private readonly finished = new InOrder<{ readonly result: Result; readonly bytes: number }>();
  private held = 0;
  private rows = 0;
  private reading: Promise<IteratorResult<RowInput, void>> | undefined;
  private changed: () => void = () => undefined;

  /** @param live whether models take turns at no cost, so that a row need not wait for a source that takes its time */
  constructor(
    input: AsyncIterable<RowInput> | Iterable<RowInput>,
    private readonly limits: CascadeLimits,
    private readonly inOrder: boolean,
    private readonly live: boolean,
  ) {
    this.source = cancellable(input);
  }

  /** Begins with the input: a stream that cannot wait has to have somebody who listens from here on. */
  begin(): void {
    this.reading ??= this.read();
  }

  /** Rows of the input for the first model, until as many wait for others as may. */
  async *fromInput(): AsyncGenerator<RowInput, void, undefined> {
    while (!this.ended && this.hasRoom) {
      const change = new Promise<undefined>((resolve) => {
        this.changed = () => {
          resolve(undefined);
        };
      });
      this.reading ??= this.read();
      const idle = this.live && this.inModel.size === 0 && this.onward.length > 0;
      const other = idle ? sleep(SLOW_SOURCE_MS, undefined) : change;
      const step = await (this.live ? Promise.race([this.reading, other]) : this.reading);
      if (step === undefined) {
        if (idle) return;
        continue;
      }
      this.reading = undefined;
      if (step.done === true) this.ended = true;
      else yield this.sent(this.opened(step.value));
    }
  }

  /** Gives the rows that go on to the next model. */
  fromEarlier(): AsyncGenerator<RowInput, void, undefined> {
    const rows = this.onward;
    this.onward = [];
    return asyncOf(this.sentAll(rows));
  }

  get goOn(): boolean {
    return this.onward.length > 0;
  }

  /** Takes a model's result: the row goes on to the next one, or has it. @throws TaskError for a result of no row */
  receive(result: Result, model: string, stands: boolean): readonly Result[] {
    const row = this.inModel.get(result.index);
    if (!row) throw new TaskError('cascade', `${model} answered row ${result.index}, which it was not given`);
    this.inModel.delete(row.place);
    if (!stands && !row.bad) {
      this.onward.push(row);
      this.changed();
      return [];
    }
    this.held -= row.bytes;
    const { identity, carry } = row;
    if (result.error) this.counts.failed += 1;
    else this.counts.done += 1;
    if (result.finishReason === 'length') this.counts.cut += 1;
    const finished = { ...result, ...identity, ...(!result.error && { model }), ...(carry && { carry }) };
    this.changed();
    return this.inOrder ? this.inTurn(row.place, finished) : [finished];
  }

  /** Results that wait for earlier rows, where no more will come. */
  rest(): readonly Result[] {
    return this.finished.rest().map(({ result }) => result);
  }

  /** @throws TaskError for rows that a model has ended without */
  checkAnswered(model: string): void {
    if (this.inModel.size > 0)
      throw new TaskError('cascade', `${model} ended with ${this.inModel.size} rows unanswered`);
  }

  /** Nobody wants more. */
  close(): void {
    this.ended = true;
    this.changed();
    this.source.abort();
  }

  private read(): Promise<IteratorResult<RowInput, void>> {
    const reading = this.source.next();
    // It may fail while another model computes; whoever awaits it next hears of that.
    reading.catch(() => undefined);
    return reading;
  }

  private get hasRoom(): boolean {
    const { rows, bytes } = this.limits;
    const waiting = this.onward.length + this.finished.waiting;
    return waiting === 0 || (this.onward.length < rows && this.held < bytes);
  }

  private opened(given: RowInput): OpenRow {
    const input = readableRow(given);
    const place = this.rows++;
    const { identity, duplicate } = identified(input, place, this.ids);
    const error = this.errorOf(input) ?? (duplicate ? duplicateId(identity.id) : undefined);
    const bytes = heldBytes(input, this.limits.bytes);
    this.held += bytes;
    const { carry, ...row } = input;
    return { place, row: error ? { error } : row, identity, carry, bytes, bad: error !== undefined };
  }

  private errorOf(input: RowInput): RowFailure | undefined {
    if ('error' in input) return input.error;
    return (input.samples ?? input.wantedSamples) === undefined ? undefined : SAMPLES;
  }

  private *sentAll(rows: readonly OpenRow[]): Generator<RowInput, void, undefined> {
    for (const row of rows) yield this.sent(row);
  }

  private sent(open: OpenRow): RowInput {
    this.inModel.set(open.place, open);
    return { ...open.row, id: open.place, index: open.place, duplicate: false };
  }

  private inTurn(place: number, result: Result): readonly Result[] {
    const bytes = this.finished.isNext(place) ? 0 : heldBytes(result, this.limits.bytes);
    this.held += bytes;
    return Array.from(this.finished.add(place, { result, bytes }), (due) => {
      this.held -= due.bytes;
      return due.result;
    });
  }
}
