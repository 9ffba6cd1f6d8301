import type { Writable } from 'node:stream';
import type { GenerateOptions, RowInput, RowResult } from '../Row.js';
import type {
  ClassifyOptions,
  ClassifyResult,
  EmbedOptions,
  EmbedResult,
  ScoreOptions,
  ScoreResult,
  RerankOptions,
  RerankResult,
} from '../Results.js';
import type { FormatOptions } from './output/writeOptions.js';
import type { MaxErrors } from './ErrorLimit.js';
import type { TruthReport } from './TruthReport.js';
import type { SubsetOptions } from './RowSubset.js';
import type { FormatChoice } from './formats/rowFormats.js';
import type { TakenColumns } from './formats/RowFormat.js';
import type { DatabaseOutput } from './database/DatabaseOutput.js';
import type { InputPaths } from './input/inputFiles.js';
import type { Shard } from './shards/Shard.js';

/** The parts of an engine that a job needs. */
export interface RowGenerator {
  /**
   * Results carry the `id` and `index` of their row; each row of `rows` has both. Once the `signal` of the options
   * fires, what is finished comes still, whatever its place, and then the end, or an error.
   */
  generate(rows: AsyncIterable<RowInput>, options?: GenerateOptions): AsyncIterable<RowResult>;
  /**
   * The facts of the engine that decide results, as plain JSON data, such as `Engine.resultIdentity`: an output is
   * resumed by engines of the same value alone.
   */
  readonly resultIdentity?: object;
  /** The names of a cascade's models, as results call them. */
  readonly models?: readonly string[];
  /** The methods that jobs of these tasks need. */
  classify?(rows: AsyncIterable<RowInput>, options?: ClassifyOptions): AsyncIterable<ClassifyResult>;
  score?(rows: AsyncIterable<RowInput>, options?: ScoreOptions): AsyncIterable<ScoreResult>;
  rerank?(rows: AsyncIterable<RowInput>, options?: RerankOptions): AsyncIterable<RerankResult>;
  embed?(rows: AsyncIterable<RowInput>, options?: EmbedOptions): AsyncIterable<EmbedResult>;
}

export interface JobOptions extends SubsetOptions {
  /**
   * A file of rows, or several of one format, by their paths or by patterns such as `data/*.parquet` (then in the order
   * of their names); or the rows, e.g. of `readRows(process.stdin)` or of a database's cursor. Objects that are no
   * rows of a reader's and have other keys than a row's (no `fields`, no `carry`) are read by their keys: beside
   * `columns` they are a table's rows, of which the first one has all columns; else their fields are those of a row.
   * Other keys are carried into tables, or with `carryFields`, and all are values for a `promptTemplate`; moments and
   * large numbers are text then, bytes base64.
   */
  readonly input: InputPaths | AsyncIterable<RowInput> | Iterable<RowInput>;
  /** The format of an input file. Default `auto`: what its name says, then what it begins with. */
  readonly inputFormat?: FormatChoice;
  /**
   * Fields of a row by the columns that hold them, of an input file, or of objects whose keys are columns. Default:
   * `id`, `prompt`, `messages`, `tokens`, `labels` and `completions` by those of the same name; parameters
   * (`temperature`, `seed`, …) of tables, and of lines of JSON beside a `promptTemplate`, are in no column that is not
   * named; those of other lines of JSON by their names.
   */
  readonly columns?: Readonly<Record<string, string>>;
  /**
   * Called once for an input file, before the first row is answered, with the columns that hold fields of a row: of
   * tables, and of lines of JSON beside a `promptTemplate`.
   */
  readonly onColumns?: (columns: TakenColumns) => void;
  /** The delimiter of the values of `csv`. Default: what the header of the input says; in an output `,`. */
  readonly delimiter?: string;
  /**
   * True where fields of an input file that are not ours are carried into the result (`carry`; a line of JSON calls it
   * `row`). Default false. Tables carry all columns of the input in any case.
   */
  readonly carryFields?: boolean;
  /**
   * A file, a stream, or a table of a database. A stream (and a path that is a pipe or device) cannot be resumed. Of a
   * table the results stand in a journal beside the database's file, or in the working folder, too, which is what is
   * resumed.
   */
  readonly output: string | Writable | DatabaseOutput;
  /**
   * Default `auto`: what the output's name says. Any but plain `jsonl` is written as a whole when a run ends: until
   * then results are in `OUTPUT.rows.jsonl`, which is what is resumed.
   */
  readonly outputFormat?: FormatChoice;
  /**
   * Names of result columns of tables (`text`, `finish_reason`, …, or a property of the answers' JSON Schema) that
   * differ from ours; what both are called means the property.
   */
  readonly resultColumns?: Readonly<Record<string, string>>;
  /** Goes before the names of all result columns of tables that `resultColumns` does not name. Default: nothing. */
  readonly resultPrefix?: string;
  /** A file where rows that failed go, instead of into the output. */
  readonly errors?: string;
  /**
   * Ends the run when more results have an error than so many, or than this share of the rows. What is finished is
   * written. Default: any may.
   */
  readonly maxErrors?: MaxErrors;
  /**
   * The column of the input, or the field of its rows, that says what is right: the summary has how answers compare
   * with it. `NAME=COLUMN` says which answer is meant, of several questions or of an object's properties; without, the
   * one that is called as the column, or the only one. Rows of earlier runs are not compared. Default: none.
   */
  readonly truth?: string;
  /**
   * True where a cascade answers, so that results say which `model` did, and how sure it was: tables have a column for
   * each. Default: for `runJob` whether its engine is one, else false.
   */
  readonly cascade?: boolean;
  /**
   * These rows of the input alone: the others are read, and not answered. `output` is then a part, best called by
   * `shardPath`; `collectJob` makes one output of the parts. Default: all rows.
   */
  readonly shard?: Shard;
  /**
   * Go on with an output that exists, if there is one: rows that stand there are not done again. An input that has got
   * more lines since, or more files after those that there were, is gone on with. What earlier runs had finished ahead
   * of its turn, or failed and is tried again, stands out of order until a run completes the job and puts all rows in
   * order, unless `generate.order` is `completion`. Default false: it is refused.
   */
  readonly resume?: boolean;
  /** With `resume`: do the error rows again. They then stand at the end of the output. Default false: they are kept. */
  readonly retryErrors?: boolean;
  /** Begin anew over an output that exists. Default false. */
  readonly overwrite?: boolean;
  /**
   * Files of the model, as in `engine.source.files`: nothing overwrites them, and a resumed run must have the same, by
   * their contents. Only for an output file.
   */
  readonly modelFiles?: readonly string[];
  /**
   * The part of the engine's `resultIdentity` that is known before there is an engine: an output that was begun with
   * another is refused at once.
   */
  readonly resultIdentity?: object;
  /**
   * Whatever else decides the results, e.g. `{ precision: 'float32' }`: a resumed run must have the same. Plain JSON
   * data.
   */
  readonly identity?: Readonly<Record<string, unknown>>;
  /**
   * Rows are generated from, with these options: what a job does if it is told nothing else. Where `responseFormat` is
   * a JSON Schema of objects, or `schema` one of zod's, tables have a column for each of its properties, and the text
   * of answers that do not stand there as a whole.
   */
  readonly generate?: GenerateOptions & FormatOptions;
  /** Or they are classified. */
  readonly classify?: ClassifyOptions;
  /** Or completions of them are scored. */
  readonly score?: ScoreOptions;
  /** Or their documents are ranked. */
  readonly rerank?: RerankOptions;
  /** Or they are embedded. */
  readonly embed?: EmbedOptions;
}

export interface JobSummary {
  /** Rows that the input, the shard, the limit or the sample has, bad ones included. */
  readonly rows: number;
  /** Results of this run (one a row, or one a sample), and those with an error among them. */
  readonly done: number;
  readonly failed: number;
  /** Results of earlier runs that were kept, and those with an error among them. */
  readonly kept: number;
  readonly keptFailed: number;
  /** There, and true, if more rows failed than may, so that the run ended before the input did. */
  readonly stopped?: true;
  /** How answers of this run compare with `truth`, where that was asked. */
  readonly truth?: TruthReport;
}
