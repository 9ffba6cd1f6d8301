import { found } from '../arguments/found.js';
import { isWithin } from '../arguments/NumberRange.js';
import type { Channel } from '../collections/Channel.js';
import { IdSet } from '../collections/IdSet.js';
import { TaskError } from '../errors/engineErrors.js';
import { UsageError } from '../errors/UsageError.js';
import type { AnyResult } from '../Results.js';
import type { RowInput } from '../Row.js';
import { duplicateId, failedResult } from '../rows/failedResult.js';
import { readableRow } from '../rows/readableRow.js';
import { SAMPLES } from '../rows/rowFields.js';
import type { DoneRows } from './record/DoneRows.js';
import type { RowsDigest } from './record/fingerprint.js';
import type { RowSubset } from './RowSubset.js';
import type { RowWatch } from './RowWatch.js';
import { type SettledShard, shardOfRow } from './shards/Shard.js';

/**
 * The rows of a job on their way to the engine and back. Rows that are done are left out; the others keep their index
 * in the input. Holds the ids of all rows that were given one (see IdSet) and those of the rows that are in the engine.
 * An id that nobody gave is a row's number and may be another row's too; `index` is what tells rows apart.
 */
export class JobRows {
  readonly #ids = new IdSet();
  /** The rows that went to the engine and have results to come, by index. */
  readonly #inEngine = new Map<number, SentRow>();
  #rows = 0;
  #ownRows = 0;
  #ended = false;
  /** Rows that were done before. */
  #kept = 0;
  #overtaken = false;
  #failure: unknown;

  /**
   * @param samples asked of each row that does not say how many
   * @param onFirst called with the first row, or undefined if there is none, before anything else happens
   */
  constructor(
    private readonly done: DoneRows,
    private readonly samples: number | undefined,
    /** Whose rows alone are sent; all are read, as ids and places are those of the whole input. */
    private readonly shard: SettledShard | undefined,
    /** Which rows alone are sent; undefined for all. */
    private readonly subset: RowSubset | undefined,
    private readonly onFirst: (row: RowInput | undefined) => Promise<void>,
    /** The digest of an input that comes once. */
    private readonly digest: RowsDigest | undefined,
    /** A row as it was given. Never throws, but for what is wrong with all of them. */
    private readonly read: (given: unknown) => RowInput = readableRow,
    private readonly watch?: RowWatch,
  ) {}

  /** Rows of the input that were read. */
  get rows(): number {
    return this.#rows;
  }

  /** Rows that were read and are the shard's, or in the subset; without either all. */
  get ownRows(): number {
    return this.#ownRows;
  }

  /**
   * Tells whether something that is done stands in front of something that is not, so that what is appended is out of
   * its turn.
   */
  get overtaken(): boolean {
    return this.#overtaken;
  }

  /** Tells whether a row went to the engine and has results to come. */
  isOpen(index: number): boolean {
    return this.#inEngine.has(index);
  }

  /** The error that ended `send` early, as it was before the engine passed it on. */
  get failure(): unknown {
    return this.#failure;
  }

  /** Checks that the whole input came, and that each row that was sent has its answers. @throws TaskError */
  checkAnswered(): void {
    if (this.#failure !== undefined) throw new TaskError('job', 'the input failed', { cause: this.#failure });
    if (!this.#ended) throw new TaskError('job', `the engine ended with row ${this.#rows}, before the input did`);
    if (this.#inEngine.size > 0)
      throw new TaskError('job', `the engine ended with ${this.#inEngine.size} rows unanswered`);
  }

  /**
   * @throws UsageError when a row that is done had another id; what the channel was aborted with; whatever the input
   * throws
   */
  async *send(input: Channel<RowInput>): AsyncGenerator<RowInput, void, undefined> {
    // Rows that an earlier run had read and not finished: a few, as engines read no further ahead. None of them is
    // answered before all are known to be the same.
    const held: RowInput[] = [];
    try {
      while (!this.#hasAll()) {
        const step = await input.next();
        this.#ended = step.done === true;
        const given = step.done === true ? undefined : this.read(step.value);
        if (this.#rows === 0) await this.onFirst(given);
        if (given === undefined) break;
        const row = this.#next(given);
        this.digest?.add(given);
        if (row !== undefined) held.push(row);
        if (this.digest?.confirmed !== false) yield* held.splice(0);
      }
      if (this.#kept < this.done.size) {
        const missing = this.done.size - this.#kept;
        throw new UsageError(
          `the input has ${this.#rows} rows, but the output holds ${missing} results of other rows; it was begun with another input`,
        );
      }
      this.digest?.end();
    } catch (error) {
      this.#failure = error;
      throw error;
    } finally {
      input.abort();
    }
  }

  /**
   * @returns the results to write: whatever the engine does with a row whose id an earlier one has, it is an error
   * @throws TaskError for a result that answers no row
   */
  receive(result: AnyResult): readonly AnyResult[] {
    const row = this.#inEngine.get(result.index);
    if (row === undefined || row.id !== result.id) {
      throw new TaskError(
        'job',
        `the engine answered row ${result.index} with id ${found(result.id)}, which it does not have`,
      );
    }
    // A row that is refused has one result for all of its samples; where some of them are answered already, the others
    // have one each.
    const refused = result.sample === undefined && result.error !== undefined;
    const others = refused ? row.waiting.take() : [];
    const results = refused && row.begun ? others.map((sample) => ofSample(result, sample)) : [result];
    if (!refused && !row.waiting.delete(result.sample))
      throw new TaskError(
        'job',
        `the engine answered row ${result.index} with sample ${found(result.sample)}, which it was not asked for`,
      );
    row.begun = true;
    if (row.waiting.count === 0) this.#inEngine.delete(result.index);
    return row.duplicate && result.error === undefined
      ? [failedResult(result, duplicateId(row.id), result.carry)]
      : results;
  }

  /** Tells whether nothing is looked for in the rest of the input, which another run may answer. */
  #hasAll(): boolean {
    if (this.subset?.endsBefore(this.#rows) !== true) return false;
    this.#ended = this.#kept === this.done.size && this.digest?.confirmed !== false;
    return this.#ended;
  }

  /**
   * Makes the row that goes to the engine for a row of the input; undefined if that is done, another shard's, or in no
   * subset.
   */
  #next(given: RowInput): RowInput | undefined {
    const index = this.#rows;
    this.#rows += 1;
    const id = given.id ?? index + 1;
    const duplicate = given.duplicate ?? (given.id !== undefined && !this.#ids.add(given.id));
    if (this.shard !== undefined && shardOfRow(index, this.shard) !== this.shard.index) return undefined;
    const wanted = this.subset?.has(given, index) !== false;
    if (wanted) this.#ownRows += 1;
    const isDone = (sample?: number): boolean => {
      const state = this.done.check(index, id, sample);
      if (state === 'other-id')
        throw new UsageError(
          `row ${index} of the input has the id ${found(id)}, but the output has another there; it was begun with another input`,
        );
      if (state === 'done') this.#kept += 1;
      return state === 'done';
    };
    // Of a row that was refused there is one result, without a sample. Samples may stand beside it all the same, and
    // are counted.
    const refused = isDone();
    const samples = samplesOf(given, this.samples);
    const wantedSamples = samples?.filter((sample) => !isDone(sample));
    if (!wanted || refused || wantedSamples?.length === 0) return undefined;
    // Of its own samples, the first ones have to be those that are done.
    const before = (samples?.length ?? 0) - (wantedSamples?.length ?? 0);
    if (this.#kept < this.done.size || wantedSamples?.some((sample) => sample < before)) this.#overtaken = true;
    this.#inEngine.set(index, { id, duplicate, begun: before > 0, waiting: new WaitingSamples(wantedSamples) });
    const error = this.watch?.sends(index);
    if (error) return { id, index, duplicate, error, ...(given.carry && { carry: given.carry }) };
    return { ...given, id, index, duplicate, ...(wantedSamples && { wantedSamples }) };
  }
}

interface SentRow {
  readonly id: string | number;
  readonly duplicate: boolean;
  /** True where some of the row's samples are done. */
  begun: boolean;
  readonly waiting: WaitingSamples;
}

/**
 * The samples of a row that have no result yet, a bit each; undefined stands for the one answer of a row of which no
 * samples were asked.
 */
class WaitingSamples {
  #bits: Uint32Array | undefined;
  #count: number;

  /** @param samples in order */
  constructor(samples: readonly number[] | undefined) {
    this.#count = samples?.length ?? 1;
    if (samples === undefined) return;
    this.#bits = new Uint32Array(((samples.at(-1) ?? 0) >>> 5) + 1);
    for (const sample of samples) this.#bits[sample >>> 5] = (this.#bits[sample >>> 5] ?? 0) | (1 << (sample & 31));
  }

  get count(): number {
    return this.#count;
  }

  /** False if it is not among them. */
  delete(sample: number | undefined): boolean {
    if (!this.#has(sample)) return false;
    if (this.#bits !== undefined && sample !== undefined)
      this.#bits[sample >>> 5] = (this.#bits[sample >>> 5] ?? 0) & ~(1 << (sample & 31));
    this.#count -= 1;
    return true;
  }

  /** All of them; none is left. */
  take(): readonly (number | undefined)[] {
    const bits = this.#bits;
    const all = bits
      ? Array.from({ length: 32 * bits.length }, (_, sample) => sample).filter((sample) => this.#has(sample))
      : Array.from({ length: this.#count }, () => undefined);
    this.#count = 0;
    return all;
  }

  #has(sample: number | undefined): boolean {
    if (this.#bits === undefined || sample === undefined)
      return this.#bits === undefined && sample === undefined && this.#count > 0;
    // What is no whole number of at least 0 is at no place.
    return ((this.#bits[Math.floor(sample / 32)] ?? 0) & (1 << (sample & 31))) !== 0 && Number.isInteger(sample);
  }
}

/** The samples that a row asks for; undefined if none, or if what it says is no count, which the engine will say. */
function samplesOf(row: RowInput, otherwise: number | undefined): readonly number[] | undefined {
  const samples: unknown = ('samples' in row ? row.samples : undefined) ?? otherwise;
  return isWithin(samples, SAMPLES) ? Array.from({ length: samples }, (_, sample) => sample) : undefined;
}

function ofSample(result: AnyResult, sample: number | undefined): AnyResult {
  return sample === undefined ? result : { ...result, sample };
}
