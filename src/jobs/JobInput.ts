import { JobFileError } from '../errors/JobFileError.js';
import { ROW_LIMITS } from '../model/files/limits.js';
import type { RowInput } from '../Row.js';
import { bytesOf, readable } from './bytesOf.js';
import { CountedInput } from './CountedInput.js';
import type { InputFingerprint } from './fingerprint.js';
import { decompressed } from './formats/compression.js';
import type { FileFormat } from './formats/detectFormat.js';
import type { ReadOptions, RowSource } from './formats/RowFormat.js';
import type { Table } from './formats/Table.js';
import { checkPromptColumn } from './formats/tableRow.js';
import type { JobFileState } from './jobFiles.js';
import type { JobOptions } from './JobOptions.js';

/** Where a job's rows come from: regular files, which are counted and can be read again; a pipe, a device or the caller's rows, which come once. */
export class JobInput {
  #table: Table | undefined;

  private constructor(
    private readonly options: JobOptions,
    private readonly file: FileFormat,
    private readonly counted: CountedInput | undefined,
  ) {}

  /** @throws JobFileError, InterruptedError */
  static async open(options: JobOptions, file: FileFormat, state: JobFileState['input']): Promise<JobInput> {
    const { input, generate } = options;
    if (typeof input === 'string' && state === 'special' && file.format.needsFile === true) {
      throw new JobFileError(input, `found a pipe or device, expected a regular file, as ${file.format.name} is read from its end`);
    }
    const counted = typeof input === 'string' && state === 'regular' ? await CountedInput.count(input, file, generate?.signal) : undefined;
    const opened = new JobInput(options, file, counted);
    // A table that holds no prompts is refused before anything else is done.
    if (counted !== undefined && file.format.carries === true) await opened.#readHeader();
    return opened;
  }

  /** Rows, where they could be counted; else not known before the end. */
  get rows(): number | undefined {
    return this.counted?.rows;
  }

  /** Whether it can be read again. */
  get again(): boolean {
    return this.counted !== undefined;
  }

  /** Undefined for what comes once. */
  get fingerprint(): InputFingerprint | undefined {
    return this.counted?.fingerprint;
  }

  /** What rows have in common, once the first one has been read. */
  get table(): Table | undefined {
    return this.#table;
  }

  /**
   * The rows, from the first one on; again, where they are of a file.
   * @param carryFields whether what is not ours goes with them
   */
  read(carryFields: boolean): AsyncIterable<RowInput> | Iterable<RowInput> {
    const { input, generate, columns, delimiter } = this.options;
    if (typeof input !== 'string') return input;
    const source: RowSource = this.counted ?? { name: input, bytes: () => decompressed(readable(bytesOf(input, generate?.signal), input), this.file.compression, input) };
    const options: ReadOptions = {
      carryFields, maxLineBytes: ROW_LIMITS.lineBytes, templated: generate?.promptTemplate !== undefined, ...(columns && { columns }), ...(delimiter !== undefined && { delimiter }),
      onTable: (table) => {
        if (generate?.promptTemplate === undefined) checkPromptColumn(input, table.columns, columns);
        this.#table = table;
      },
    };
    return this.file.format.rows(source, options);
  }

  /** @throws JobFileError if a file is not what was counted any more; InterruptedError */
  async checkUnchanged(): Promise<void> {
    await this.counted?.checkUnchanged();
  }

  async #readHeader(): Promise<void> {
    for await (const _ of this.read(false)) return;
  }
}
