import type { AnyResult, JobTaskName } from '../../Results.js';
import type { RowInput } from '../../Row.js';
import type { DeclaredProperty } from '../../schema/declaredProperties.js';
import type { Table } from './Table.js';

/** Where a format reads. */
export interface RowSource {
  /** The source's name in errors. */
  readonly name: string;
  /** Its path, where it is a regular file, so that any part of it can be read. */
  readonly path?: string;
  /** Its bytes in order, decompressed. The next chunk may overwrite the one before. */
  bytes(): AsyncIterable<Uint8Array | string>;
  /** For who reads by `path`: looks whether the file is still what it was. @throws JobFileError */
  check?(): Promise<void>;
}

/** How a row's columns are read. */
export interface TakenColumns {
  /** Columns by the fields of a row that they hold; all others are data. */
  readonly fields: Readonly<Record<string, string>>;
  /** The columns that are called as parameters (`temperature`, `seed`, …), and are data all the same. */
  readonly likeParameters: readonly string[];
}

export interface ReadOptions {
  /** The task to be done with the rows: requests of OpenAI's Batch API say it too. Default `generate`. */
  readonly task?: JobTaskName;
  /** Fields of a row by the columns that hold them, where they are called otherwise. */
  readonly columns?: Readonly<Record<string, string>>;
  /**
   * True if `labels` and `completions` of rows that are data are the rows' own where nobody names them: not where the
   * run says them. Default true.
   */
  readonly ownTexts?: boolean;
  /** Keep what is not ours (of a table: all columns) as the row's `carry`. */
  readonly carryFields: boolean;
  /**
   * All fields of a row are values for a `promptTemplate`, and go into its `fields`; no prompt is looked for. Default
   * false.
   */
  readonly templated?: boolean;
  /**
   * True where the content kept goes into a file of this format again: it need be of use to nobody else. Default false.
   */
  readonly exact?: boolean;
  /**
   * Content that is not ours is read again later, and goes into tables then, or into a file of this format: a row that
   * will have no place there is an error row now. Default: it is not read again.
   */
  readonly joined?: 'readable' | 'exact';
  /** CSV's delimiter; default: what the header says. */
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
  /** The task that was done with the rows. Default `generate`. */
  readonly task?: JobTaskName;
  /** Gives what the input's rows have in common: asked once the first result, or the end, is there. */
  readonly table: () => Table | undefined;
  /** Names of result columns that differ from ours. */
  readonly resultColumns: Readonly<Record<string, string>>;
  /**
   * The parts that results may have beside the usual: `sample`, `value`, `reasoning`, `logprobs`, `vector`, `vector16`,
   * `vector8`, `bytes` or `base64` for an embedding, `scale` for what its numbers are multiplied by.
   */
  readonly parts: readonly string[];
  /**
   * The properties that the run's JSON Schema asks for: tables have a column of each, instead of one for `value`.
   * Undefined without a schema, and for one of other values than objects.
   */
  readonly properties?: readonly DeclaredProperty[];
  readonly delimiter?: string;
  /** The output's name in errors. */
  readonly name: string;
}

/**
 * A kind of file with rows: how they are read, and how results are written. One file a format; `rowFormats` lists them.
 */
export interface RowFormat {
  readonly name: string;
  /** How files of it are called at the end, without the dot. */
  readonly extensions: readonly string[];
  /** Tells whether a file that begins so is of the format, for files whose names say nothing. Default: none is. */
  begins?(start: string): boolean;
  /** The tasks whose answers it has a place for. Default: all. */
  readonly tasks?: readonly JobTaskName[];
  /** True where rows can be read from nothing but a regular file. */
  readonly needsFile?: boolean;
  /**
   * True where anything written after the end of a file of the format is more rows, and changes none of those that
   * there are.
   */
  readonly appendable?: boolean;
  /**
   * True where files of the format carry the columns of the input, as tables do; `exact`: what stands in the input,
   * where that is of the same format.
   */
  readonly carries?: boolean | 'exact';
  /**
   * True where all samples of a row, which then follow one another, come to one line: the line has failed if one of
   * them has. Default false.
   */
  readonly joinsSamples?: boolean;
  /**
   * True where nothing but a result's place says whose it is: rows that failed keep their places in an output, and a
   * file of errors would not say what they are. Default false.
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
