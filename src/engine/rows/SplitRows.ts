import { cancellable } from '../../collections/cancellable.js';
import { IdSet } from '../../collections/IdSet.js';
import { InOrder } from '../../collections/InOrder.js';
import { RowError } from '../../errors/RowError.js';
import type { ResultBase } from '../../Results.js';
import type { BadRow, Row, RowFailure, RowInput, RowResult } from '../../Row.js';
import { duplicateId } from '../../rows/failedResult.js';
import { heldBytes } from '../../rows/heldBytes.js';
import { identified, type RowIdentity } from '../../rows/identified.js';
import { readableRow } from '../../rows/readableRow.js';

/** How many rows may be open at once, and how much they may take. */
export interface OpenLimits {
  readonly rows: number;
  readonly bytes: number;
  /** Rows that are answered and wait for an earlier one. */
  readonly waiting: number;
}

/** One of a row's rows, and who takes its result. */
export interface SplitPart<Result> {
  readonly row: RowInput;
  readonly taken: (result: Result) => void | Promise<void>;
}

/** A row that is computed as several rows of a run, whose results become its one result. */
export interface SplitRow<Result> {
  /** A row that can be computed now; undefined for none until there are more results. */
  next(): SplitPart<Result> | undefined;
  /** Tells whether the row's result is there. @param underWay rows that have results to come */
  isDone(underWay: number): boolean;
  result(identity: RowIdentity): Result;
}

/** Makes several rows of one. @throws RowError for one of which none can be made */
export type RowSplitter<Result> = (row: Row) => SplitRow<Result> | Promise<SplitRow<Result>>;

/** A row that has results to come. */
interface OpenRow<Result> {
  readonly split: SplitRow<Result>;
  readonly identity: RowIdentity;
  readonly carry: RowResult['carry'];
  /** In the order of the input. */
  readonly place: number;
  readonly bytes: number;
  underWay: number;
  /** True where the row is among those that may have rows to be computed. */
  isToCome: boolean;
}

/** Results as they are counted. */
type CountedResult = ResultBase & Partial<Pick<RowResult, 'finishReason'>>;

/**
 * Rows that are several rows of a run each: those of one row follow one another, so that what their prompts begin with
 * is computed once. A row that had to wait for results comes before new ones. The results of a row's rows become its
 * one result.
 */
export class SplitRows<Result extends CountedResult> {
  private readonly underWay = new Map<
    number,
    { readonly open: OpenRow<Result>; readonly taken: (result: Result) => void | Promise<void> }
  >();
  private readonly toCome: OpenRow<Result>[] = [];
  private readonly finished = new InOrder<Result>();
  private readonly ids = new IdSet();
  private openRows = 0;
  private openBytes = 0;
  private rows = 0;
  private sent = 0;
  private closed = false;
  private changed: () => void = () => undefined;
  readonly counts = { done: 0, failed: 0, cut: 0 };

  constructor(
    private readonly split: RowSplitter<Result>,
    private readonly limits: OpenLimits,
    private readonly inOrder: boolean,
  ) {}

  /** The rows that the engine is given. */
  async *feed(input: AsyncIterable<RowInput> | Iterable<RowInput>): AsyncGenerator<RowInput, void, undefined> {
    const reader = cancellable(input);
    let reading: Promise<IteratorResult<RowInput, void>> | undefined;
    let ended = false;
    try {
      for (;;) {
        const row = this.nextToCome();
        if (row) {
          yield row;
          continue;
        }
        if (this.closed || (ended && this.openRows === 0)) return;
        const change = new Promise<undefined>((resolve) => {
          this.changed = () => {
            resolve(undefined);
          };
        });
        if (!ended && this.hasRoom) reading ??= reader.next();
        // A result on which a row waits must not wait for a source that takes its time.
        const step = await (reading && this.hasRoom ? Promise.race([reading, change]) : change);
        if (step === undefined) continue;
        reading = undefined;
        if (step.done === true) ended = true;
        else await this.take(readableRow(step.value));
      }
    } finally {
      reading?.catch(() => undefined);
      reader.abort();
    }
  }

  /** Takes the result of one of a row's rows; the results of rows that may go out with it. */
  async receive(result: Result): Promise<readonly Result[]> {
    const { index } = result;
    const { open, taken } = this.underWay.get(index) ?? {};
    if (!open || !taken) return [];
    this.underWay.delete(index);
    await taken(result);
    open.underWay--;
    if (open.split.isDone(open.underWay)) return this.finish(open);
    this.await(open);
    this.changed();
    return [];
  }

  /** Results that wait for earlier rows, where no more will come. */
  rest(): readonly Result[] {
    return this.finished.rest();
  }

  /** Nobody wants more. */
  close(): void {
    this.closed = true;
    this.changed();
  }

  private get hasRoom(): boolean {
    const { rows, bytes, waiting } = this.limits;
    return this.openRows === 0 || (this.openRows < rows && this.openBytes < bytes && this.finished.waiting < waiting);
  }

  private await(open: OpenRow<Result>): void {
    if (open.isToCome) return;
    open.isToCome = true;
    this.toCome.push(open);
  }

  private nextToCome(): RowInput | undefined {
    for (let open = this.toCome[0]; open; open = this.toCome[0]) {
      const next = open.split.next();
      if (next) {
        const number = this.sent++;
        open.underWay++;
        this.underWay.set(number, { open, taken: next.taken });
        const { carry: _carry, ...row } = next.row;
        // A copy that keeps what a row is asked, which is under a symbol.
        return { ...row, id: number, index: number, duplicate: false };
      }
      open.isToCome = false;
      this.toCome.shift();
    }
    return undefined;
  }

  private async take(input: RowInput): Promise<void> {
    const number = this.rows++;
    const { identity, duplicate } = identified(input, number, this.ids);
    const bytes = heldBytes(input, this.limits.bytes);
    this.openRows++;
    this.openBytes += bytes;
    const split =
      duplicate && !('error' in input) ? refused<Result>(duplicateId(identity.id)) : await this.splitOf(input);
    const open: OpenRow<Result> = {
      split,
      identity,
      carry: input.carry,
      place: number,
      bytes,
      underWay: 0,
      isToCome: false,
    };
    this.await(open);
  }

  private async splitOf(input: RowInput): Promise<SplitRow<Result>> {
    if ('error' in input) return refused(input.error);
    try {
      return await this.split(input);
    } catch (error) {
      if (!(error instanceof RowError)) throw error;
      return refused({ code: error.rowCode, message: error.message });
    }
  }

  private finish({ split, identity, carry, place, bytes }: OpenRow<Result>): readonly Result[] {
    const result = { ...split.result(identity), ...(carry !== undefined && { carry }) };
    this.openRows--;
    this.openBytes -= bytes;
    if (result.error) this.counts.failed++;
    else this.counts.done++;
    if (result.finishReason === 'length') this.counts.cut++;
    this.changed();
    return this.inOrder ? [...this.finished.add(place, result)] : [result];
  }
}

/** A row that is bad before it is split: the run says so of it, as of others. */
function refused<Result extends CountedResult>(error: RowFailure): SplitRow<Result> {
  let row: BadRow | undefined = { error };
  let said: Result | undefined;
  return {
    next: () => {
      const next = row && {
        row,
        taken: (result: Result): void => {
          said = result;
        },
      };
      row = undefined;
      return next;
    },
    isDone: () => said !== undefined,
    result: (identity) => ({ ...(said as Result), ...identity }),
  };
}
