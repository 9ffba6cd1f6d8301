import { found } from '../arguments/found.js';
import { IdSet } from '../collections/IdSet.js';
import { TaskError } from '../errors/TaskError.js';
import { UsageError } from '../errors/UsageError.js';
import type { RowInput, RowResult } from '../Row.js';
import { duplicateId } from '../rows/duplicateId.js';
import { failedResult } from '../rows/failedResult.js';
import { readableRow } from '../rows/readableRow.js';
import type { AbortGate } from './AbortGate.js';
import type { DoneRows } from './DoneRows.js';

/**
 * The rows of a job on their way to the engine and back. Rows that are done are left out; the others keep their index in the input.
 * Holds the ids of all rows that were given one (see IdSet) and those of the rows that are in the engine. An id that nobody gave is a row's number and may be
 * another row's too; `index` is what tells rows apart.
 */
export class JobRows {
  readonly #ids = new IdSet();
  /** The rows that went to the engine and have no result, by index. */
  readonly #inEngine = new Map<number, { readonly id: string | number; readonly duplicate: boolean }>();
  #rows = 0;
  /** Rows that were done before. */
  #kept = 0;
  #failure: unknown;

  /** @param onFirst called with the first row, or undefined if there is none, before anything else happens */
  constructor(
    private readonly done: DoneRows,
    private readonly onFirst: (row: RowInput | undefined) => Promise<void>,
  ) {}

  /** Rows of the input that were read. */
  get rows(): number {
    return this.#rows;
  }

  /** Rows that went to the engine and have no result. */
  get unanswered(): number {
    return this.#inEngine.size;
  }

  /** What ended `send` early, as it was before the engine passed it on. */
  get failure(): unknown {
    return this.#failure;
  }

  /** @throws UsageError when a row that is done had another id; InterruptedError through the gate; whatever the input throws */
  async *send(input: AsyncIterable<RowInput> | Iterable<RowInput>, gate: AbortGate): AsyncGenerator<RowInput, void, undefined> {
    const iterator = Symbol.asyncIterator in input ? input[Symbol.asyncIterator]() : input[Symbol.iterator]();
    let ended = false;
    try {
      for (;;) {
        const step = await gate.wait(Promise.resolve(iterator.next()));
        ended = step.done === true;
        const given = step.done === true ? undefined : readableRow(step.value);
        if (this.#rows === 0) await this.onFirst(given);
        if (given === undefined) break;
        const row = this.#next(given);
        if (row !== undefined) yield row;
      }
      if (this.#kept < this.done.size) {
        const missing = this.done.size - this.#kept;
        throw new UsageError(`the input has ${this.#rows} rows, but the output holds ${missing} with a higher index; it was begun with another input`);
      }
    } catch (error) {
      this.#failure = error;
      throw error;
    } finally {
      // Not awaited: a source that sleeps would hold up the end, and a generator takes its return after the pending step.
      if (!ended) void Promise.resolve(iterator.return?.()).catch(() => undefined);
    }
  }

  /**
   * @returns the result to write: whatever the engine does with a row whose id an earlier one has, it is an error
   * @throws TaskError for a result that answers no row
   */
  receive(result: RowResult): RowResult {
    const row = this.#inEngine.get(result.index);
    if (row === undefined || row.id !== result.id) {
      throw new TaskError('job', `the engine answered row ${result.index} with id ${found(result.id)}, which it does not have`);
    }
    this.#inEngine.delete(result.index);
    return row.duplicate && result.error === undefined ? failedResult(result, duplicateId(row.id), result.row) : result;
  }

  /** What goes to the engine for a row of the input; undefined if it is done. */
  #next(given: RowInput): RowInput | undefined {
    const index = this.#rows;
    this.#rows += 1;
    const id = given.id ?? index + 1;
    const duplicate = given.duplicate ?? (given.id !== undefined && !this.#ids.add(given.id));
    const state = this.done.check(index, id);
    if (state === 'done') {
      this.#kept += 1;
      return undefined;
    }
    if (state === 'other-id') {
      throw new UsageError(`row ${index} of the input has the id ${found(id)}, but the output has another there; it was begun with another input`);
    }
    this.#inEngine.set(index, { id, duplicate });
    return { ...given, id, index, duplicate };
  }
}
