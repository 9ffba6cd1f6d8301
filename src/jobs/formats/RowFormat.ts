import type { AnyResult, JobTaskName } from '../../Results.js';
import type { RowInput } from '../../Row.js';
import type { DeclaredProperty } from '../../schema/declaredProperties.js';
import type { Table } from './Table.js';

/** Where a format reads. */
export interface RowSource {
  /** What errors call it. */
  readonly name: string;
  /** Its path, where it is a regular file, so that any part of it can be read. */
  readonly path?: string;
  /** Its bytes in order, decompressed. The next chunk may overwrite the one before. */
  bytes(): AsyncIterable<Uint8Array | string>;
  /** For who reads by `path`: looks whether the file is still what it was. @throws JobFileError */
  check?(): Promise<void>;
}

/** What is read of a row's columns. */
export interface TakenColumns {
  /** Columns by the fields of a row that they hold; all others are data. */
  readonly fields: Readonly<Record<string, string>>;
  /** Those that are called as parameters (`temperature`, `seed`, …), and are data all the same. */
  readonly likeParameters: readonly string[];
}

export interface ReadOptions {
  /** What is to be done with the rows: requests of OpenAI's Batch API say it too. Default `generate`. */
  readonly task?: JobTaskName;
  /** Fields of a row by the columns that hold them, where they are called otherwise. */
  readonly columns?: Readonly<Record<string, string>>;
  /**
   * Whether `labels` and `completions` of rows that are data are theirs where nobody names them: not where the run says
   * them. Default true.
   */
  readonly ownTexts?: boolean;
  /** Keep what is not ours (of a table: all columns) as the row's `carry`. */
  readonly carryFields: boolean;
  /**
   * All fields of a row are values for a `promptTemplate`, and go into its `fields`; no prompt is looked for. Default
   * false.
   */
  readonly templated?: boolean;
  /** What is kept goes into a file of this format again: it need be of use to nobody else. Default false. */
  readonly exact?: boolean;
  /**
   * What is not ours is read again later, and goes into tables then, or into a file of this format: a row that will
   * have
   * no place there is an error row now. Default: it is not read again.
   */
  readonly joined?: 'readable' | 'exact';
  /** Of CSV; default: what the header says. */
  readonly delimiter?: string;
  /** A longer line or record is not held. */
  readonly maxLineBytes: number;
  /** Called before the first row where the rows have columns in common. */
  readonly onTable?: (table: Table) => void;
  /** Called before the first row where rows are data: tables, and lines for a template. */
  readonly onColumns?: (columns: TakenColumns) => void;
}

/** A result with what its row of the input had beside the prompt. */
export interface FinishedRow {
  readonly result: AnyResult;
  readonly carry: Readonly<Record<string, unknown>> | undefined;
}

export interface WriteOptions {
  /** What was done with the rows. Default `generate`. */
  readonly task?: JobTaskName;
  /** What the input's rows have in common: asked once the first result, or the end, is there. */
  readonly table: () => Table | undefined;
  /** Names of result columns that differ from ours. */
  readonly resultColumns: Readonly<Record<string, string>>;
  /**
   * What results may have beside the usual: `sample`, `value`, `reasoning`, `logprobs`, `vector`, `vector16`,
   * `vector8`, `bytes` or `base64` for an embedding, `scale` for what its numbers are multiplied by.
   */
  readonly parts: readonly string[];
  /**
   * What the run's JSON Schema asks for: tables have a column of each, instead of one for `value`. Undefined without
   * one, and for one of other values than objects.
   */
  readonly properties?: readonly DeclaredProperty[];
  readonly delimiter?: string;
  /** What errors call the output. */
  readonly name: string;
}

/**
 * A kind of file with rows: how they are read, and how results are written. One file a format; `rowFormats` lists them.
 */
export interface RowFormat {
  readonly name: string;
  /** How files of it are called at the end, without the dot. */
  readonly extensions: readonly string[];
  /** Whether a file is of it that begins so, for files whose names say nothing. Default: none is. */
  begins?(start: string): boolean;
  /** The tasks whose answers it has a place for. Default: all. */
  readonly tasks?: readonly JobTaskName[];
  /** Whether rows can be read from nothing but a regular file. */
  readonly needsFile?: boolean;
  /** Whether what is written behind the end of a file of it is more rows, and changes none of those that there are. */
  readonly appendable?: boolean;
  /**
   * Whether its files carry the columns of the input, as tables do; or what stands in the input, where that is of the
   * same format.
   */
  readonly carries?: boolean | 'exact';
  /**
   * Whether all samples of a row, which then follow one another, come to one line: it has failed if one of them has.
   * Default false.
   */
  readonly joinsSamples?: boolean;
  /**
   * Whether nothing but its place says whose a result is: rows that failed keep their places in an output, and a file
   * of errors would not say what they are. Default false.
   */
  readonly byPlace?: boolean;
  /**
   * The rows, one at a time, in bounded memory. What is no row becomes a `BadRow`.
   * @throws JobFileError for a file that cannot be gone on with
   */
  rows(source: RowSource, options: ReadOptions): AsyncGenerator<RowInput, void, undefined>;
  /** How many rows there are, where that takes less than reading them. */
  count?(source: RowSource): Promise<number>;
  /** The bytes of a file of these results, piece by piece. */
  encode(results: AsyncIterable<FinishedRow>, options: WriteOptions): AsyncIterable<string | Uint8Array>;
}
