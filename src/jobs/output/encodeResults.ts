import { checkMembers, type Check } from '../../arguments/checkMembers.js';
import { checkBoolean } from '../../arguments/checks.js';
import { found } from '../../arguments/found.js';
import { isIterable } from '../../arguments/isObject.js';
import { object, oneOf, text } from '../../arguments/memberChecks.js';
import { UsageError } from '../../errors/UsageError.js';
import { type AnyResult, EMBEDDING_ENCODINGS, JOB_TASKS, VECTOR_TYPES } from '../../Results.js';
import { settledQuestions } from '../../rows/questions.js';
import { checkResponseFormat } from '../../rows/responseFormat.js';
import { answerProperties } from './writeOptions.js';
import { checkDelimiter, checkNamesOfColumns, checkResultColumns } from '../formats/checkColumns.js';
import { jsonl } from '../formats/jsonl.js';
import { checkFormat, chosenFormat, type FormatChoice } from '../formats/rowFormats.js';
import { resultsAlone, toldTask, type ResultTableOptions } from './resultsAlone.js';

export interface EncodeResultsOptions extends ResultTableOptions {
  /** Default `jsonl`. */
  readonly format?: FormatChoice;
  /** The delimiter of the values of `csv`. Default `,`. */
  readonly delimiter?: string;
}

export const ENCODE_CHECKS: Readonly<Record<keyof EncodeResultsOptions, Check>> = {
  format: checkFormat,
  task: oneOf(...JOB_TASKS),
  encoding: oneOf(...EMBEDDING_ENCODINGS),
  vectorType: oneOf(...VECTOR_TYPES),
  responseFormat: checkResponseFormat,
  schema: object,
  resultColumns: checkNamesOfColumns,
  resultPrefix: text('what goes before names of columns'),
  delimiter: checkDelimiter,
  samples: checkBoolean,
  values: checkBoolean,
  reasoning: checkBoolean,
  toolCalls: checkBoolean,
  truncated: checkBoolean,
  attempts: checkBoolean,
  model: checkBoolean,
  confidence: checkBoolean,
  questions: (name, questions) => {
    settledQuestions(name, questions);
  },
  logprobs: checkBoolean,
  chunks: checkBoolean,
  merged: checkBoolean,
  name: text(),
};

/**
 * The bytes of a file of results, in any format, as they come: for `Readable.from`, `ReadableStream.from`, `pipeline`,
 * or RxJS's `from`. A table has the columns that the first row carries (`row`); Parquet those of its first row group,
 * in memory until then. Where a format has one line for all samples of a row (`openai-batch`), they have to follow one
 * another. For an output that outlives a killed process use `runJob`.
 * @throws UsageError at once for a wrong argument, ResponseFormatError for what is no JSON Schema; while it is
 * iterated, JobFileError for a row that does not fit into the table, and whatever the source throws
 * @example
 * await pipeline(Readable.from(encodeResults(engine.generate(rows), { format: 'parquet' })),
 * createWriteStream('answers.parquet'));
 */
export function encodeResults(
  results: AsyncIterable<AnyResult> | Iterable<AnyResult>,
  options: EncodeResultsOptions = {},
): AsyncGenerator<Uint8Array, void, undefined> {
  if (!isIterable(results)) throw new UsageError(`results: found ${found(results)}, expected an iterable of results`);
  checkMembers('options', options, ENCODE_CHECKS);
  checkEncodeOptions(options);
  return bytesOf(results, options);
}

/** Checks what more is to be said against the options together. @throws UsageError, ResponseFormatError */
export function checkEncodeOptions(options: ResultTableOptions): void {
  checkResultColumns('resultColumns', options.resultColumns ?? {}, answerProperties(options));
}

async function* bytesOf(
  results: AsyncIterable<AnyResult> | Iterable<AnyResult>,
  options: EncodeResultsOptions,
): AsyncGenerator<Uint8Array, void, undefined> {
  const { task, rows } = await toldTask(results, options.task);
  const pieces = (chosenFormat(options.format) ?? jsonl).encode(rows, resultsAlone(options, task));
  for await (const piece of pieces) yield Buffer.from(piece as Uint8Array);
}
