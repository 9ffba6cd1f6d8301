import { UsageError } from '../../errors/UsageError.js';
import type { AnyResult, EMBEDDING_ENCODINGS, JobTaskName, VectorType } from '../../Results.js';
import type { Question } from '../../rows/questions.js';
import { rowsOfResult } from '../../rows/rowsOfResult.js';
import type { ResponseFormat } from '../../rows/responseFormat.js';
import type { FinishedRow, WriteOptions } from '../formats/RowFormat.js';
import { type FormatOptions, writeOptions } from './writeOptions.js';

/** Options for tables of results that are written without a job. */
export interface ResultTableOptions extends FormatOptions {
  /**
   * The task that the results are of: tables have columns for it. Default: what the first of them says that is no
   * error.
   */
  readonly task?: JobTaskName;
  /** The encoding of embeddings, for `embed`. Default `float`. */
  readonly encoding?: (typeof EMBEDDING_ENCODINGS)[number];
  /** The type of the numbers of embeddings, for `embed`. Default `float32`. */
  readonly vectorType?: VectorType;
  /**
   * The format that answers were held to, or, from zod, `schema`: of a JSON Schema of objects tables have a column for
   * each property, and the text of answers that do not stand there as a whole. Default: none.
   */
  readonly responseFormat?: ResponseFormat;
  /**
   * Names of result columns of tables (`text`, `finish_reason`, …, or a property of the schema) that differ from ours.
   */
  readonly resultColumns?: Readonly<Record<string, string>>;
  /** Goes before the names of all result columns of tables that `resultColumns` does not name. Default: nothing. */
  readonly resultPrefix?: string;
  /** True if tables have a column for the sample, where several were asked for. Default false. */
  readonly samples?: boolean;
  /**
   * True if tables have a column for the values of answers that are held to a JSON Schema, where its properties have
   * none. Default false.
   */
  readonly values?: boolean;
  /** True if tables have a column for reasoning that was separated. Default false. */
  readonly reasoning?: boolean;
  /**
   * True if tables have a column for calls of tools; without one an answer with calls is JSON in the column of texts,
   * `{"content": …, "tool_calls": […]}`. Default false.
   */
  readonly toolCalls?: boolean;
  /** True if tables have a column for the tokens that were cut of prompts (`truncate`). Default false. */
  readonly truncated?: boolean;
  /** True if tables have a column for the attempts that answers took (`retries`). Default false. */
  readonly attempts?: boolean;
  /** True if tables have a column for the model that answered (a cascade's). Default false. */
  readonly model?: boolean;
  /**
   * True if tables have columns for how sure the model was. Default: with `questions`, which have a column each, true.
   */
  readonly confidence?: boolean;
  /**
   * True if tables have columns for the part of a row's text that a result is of (`chunkTokens`, without `merge`).
   * Default false.
   */
  readonly chunks?: boolean;
  /** True if tables have columns for how many parts an answer was merged of (`merge`). Default false. */
  readonly merged?: boolean;
  /** The questions that rows were asked: tables have a column for each. Default: none. */
  readonly questions?: readonly Question[];
  /** True if tables have a column for log-probabilities. Default false. */
  readonly logprobs?: boolean;
  /** The output's name in errors. Default `output`. */
  readonly name?: string;
}

/** Errors that do not say what was done, and are held until a result does. */
const MOST_HELD = 65_536;

/**
 * How results are written without a job: the columns of a table are those that the caller asks for, and
 * what the first rows carry.
 */
export function resultsAlone(
  options: ResultTableOptions & { readonly delimiter?: string },
  task: JobTaskName,
): WriteOptions {
  const {
    samples = false,
    values = false,
    reasoning = false,
    toolCalls = false,
    truncated = false,
    attempts = false,
    model = false,
    logprobs = false,
    chunks = false,
    merged = false,
    name = 'output',
    resultColumns = {},
    resultPrefix,
    delimiter,
  } = options;
  return writeOptions(
    {
      id: true,
      sample: samples,
      value: values,
      reasoning,
      toolCalls,
      truncated,
      attempts,
      model,
      confidence: options.confidence ?? options.questions !== undefined,
      leastConfidence: options.confidence === true && options.questions === undefined,
      logprobs,
      chunk: chunks,
      merged,
    },
    options,
    {
      task,
      table: () => undefined,
      name,
      resultColumns,
      ...(resultPrefix !== undefined && { resultPrefix }),
      ...(delimiter !== undefined && { delimiter }),
    },
  );
}

/** Results, and what was done: what the caller says, or the first of them that tells. */
export async function toldTask(
  results: AsyncIterable<AnyResult> | Iterable<AnyResult>,
  said: JobTaskName | undefined,
): Promise<{ readonly task: JobTaskName; readonly rows: AsyncGenerator<FinishedRow, void, undefined> }> {
  const iterator = (async function* (): AsyncGenerator<AnyResult, void, undefined> {
    for await (const result of results) yield result;
  })();
  const held: AnyResult[] = [];
  let told = said;
  while (told === undefined && held.length < MOST_HELD) {
    const step = await iterator.next();
    if (step.done === true) break;
    held.push(step.value);
    told = taskOf(rowsOfResult(step.value)[0] ?? step.value);
  }
  const task = told ?? 'generate';
  return { task, rows: finishedRows(held, iterator, task) };
}

/** @throws UsageError for a result of another task, for which there are no columns */
async function* finishedRows(
  held: readonly AnyResult[],
  others: AsyncGenerator<AnyResult, void, undefined>,
  task: JobTaskName,
): AsyncGenerator<FinishedRow, void, undefined> {
  const checked = (result: AnyResult): FinishedRow => {
    const own = taskOf(result) ?? task;
    if (own !== task)
      throw new UsageError(`task: found a result of ${own} among those of ${task}, expected all of one task`);
    return { result, carry: result.carry };
  };
  try {
    for (const result of held) for (const row of rowsOfResult(result)) yield checked(row);
    for await (const result of others) for (const row of rowsOfResult(result)) yield checked(row);
  } finally {
    await others.return();
  }
}

/** Undefined for an error that does not say. */
function taskOf({ finishReason, label, scores, embedding }: AnyResult): JobTaskName | undefined {
  if (finishReason !== undefined) return 'generate';
  if (label !== undefined) return 'classify';
  if (scores !== undefined) return scores[0] && 'logit' in scores[0] ? 'rerank' : 'score';
  return embedding === undefined ? undefined : 'embed';
}
