import { checkMembers, type Check } from '../arguments/checkMembers.js';
import { checkBoolean } from '../arguments/checks.js';
import { found } from '../arguments/found.js';
import { isIterable } from '../arguments/isIterable.js';
import { object, oneOf, text } from '../arguments/memberChecks.js';
import { UsageError } from '../errors/UsageError.js';
import { EMBEDDING_ENCODINGS, type AnyResult, type EmbedOptions } from '../Results.js';
import { checkResponseFormat, type ResponseFormat } from '../rows/responseFormat.js';
import { answerProperties, type FormatOptions } from './answerFormat.js';
import { checkDelimiter, checkNamesOfColumns, checkResultColumns } from './checkColumns.js';
import { jsonl } from './formats/jsonl.js';
import { checkFormat, chosenFormat, type FormatChoice } from './formats/rowFormats.js';
import { JOB_TASKS, type JobTaskName } from './JobTaskName.js';
import { resultsAlone, toldTask } from './resultsAlone.js';

export interface EncodeResultsOptions extends FormatOptions {
  /** Default `jsonl`. */
  readonly format?: FormatChoice;
  /** What the results are of: tables have columns for it. Default: what the first of them says that is no error. */
  readonly task?: JobTaskName;
  /** Of `embed`: how embeddings are written. Default `float`. */
  readonly encoding?: EmbedOptions['encoding'];
  /** What answers were held to, or, from zod, `schema`: of a JSON Schema of objects tables have a column for each property, and the text of answers that do not stand there as a whole. Default: none. */
  readonly responseFormat?: ResponseFormat;
  /** Names of result columns of tables (`text`, `finish_reason`, …, or a property of the schema) that differ from ours. */
  readonly resultColumns?: Readonly<Record<string, string>>;
  /** What parts the values of `csv`. Default `,`. */
  readonly delimiter?: string;
  /** Whether tables have a column for the sample, where several were asked for. Default false. */
  readonly samples?: boolean;
  /** Whether tables have a column for the values of answers that are held to a JSON Schema, where its properties have none. Default false. */
  readonly values?: boolean;
  /** Whether tables have a column for reasoning that was separated. Default false. */
  readonly reasoning?: boolean;
  /** Whether tables have a column for log-probabilities. Default false. */
  readonly logprobs?: boolean;
  /** What errors call the output. Default `output`. */
  readonly name?: string;
}

export const ENCODE_CHECKS: Readonly<Record<keyof EncodeResultsOptions, Check>> = {
  format: checkFormat, task: oneOf(...JOB_TASKS), encoding: oneOf(...EMBEDDING_ENCODINGS), responseFormat: checkResponseFormat, schema: object, resultColumns: checkNamesOfColumns, delimiter: checkDelimiter, samples: checkBoolean, values: checkBoolean, reasoning: checkBoolean, logprobs: checkBoolean, name: text(),
};

/**
 * The bytes of a file of results, in any format, as they come: for `Readable.from`, `ReadableStream.from`, `pipeline`, or RxJS's `from`. A table has the columns that the first
 * row carries (`row`); Parquet those of its first row group, in memory until then. For an output that outlives a killed process use `runJob`.
 * @throws UsageError at once for a wrong argument, ResponseFormatError for what is no JSON Schema; while it is iterated, JobFileError for a row that does not fit into the table, and whatever the source throws
 * @example
 * await pipeline(Readable.from(encodeResults(engine.generate(rows), { format: 'parquet' })), createWriteStream('answers.parquet'));
 */
export function encodeResults(results: AsyncIterable<AnyResult> | Iterable<AnyResult>, options: EncodeResultsOptions = {}): AsyncGenerator<Uint8Array, void, undefined> {
  if (!isIterable(results)) throw new UsageError(`results: found ${found(results)}, expected an iterable of results`);
  checkMembers('options', options, ENCODE_CHECKS);
  checkEncodeOptions(options);
  return bytesOf(results, options);
}

/** What more there is to be said against them together. @throws UsageError, ResponseFormatError */
export function checkEncodeOptions(options: Omit<EncodeResultsOptions, 'format'>): void {
  checkResultColumns('resultColumns', options.resultColumns ?? {}, answerProperties(options));
}

async function* bytesOf(results: AsyncIterable<AnyResult> | Iterable<AnyResult>, options: EncodeResultsOptions): AsyncGenerator<Uint8Array, void, undefined> {
  const { task, rows } = await toldTask(results, options.task);
  const pieces = (chosenFormat(options.format) ?? jsonl).encode(rows, resultsAlone(options, task));
  for await (const piece of pieces) yield Buffer.from(piece as Uint8Array);
}
