import { UsageError } from '../../errors/UsageError.js';
import type { EmbedOptions, JobTaskName } from '../../Results.js';
import type { GenerateOptions } from '../../Row.js';
import { type ResponseFormat, responseFormatOf } from '../../rows/responseFormat.js';
import { hasChunkRows } from '../../rows/chunks.js';
import { type Question, settledQuestions } from '../../rows/questions.js';
import { declaredProperties, declaredType, type DeclaredProperty } from '../../schema/declaredProperties.js';
import { type AnswerSchema, zodJsonSchema, zodValueSchema } from '../../schema/zodJsonSchema.js';
import { confidenceColumn } from '../formats/propertyColumns.js';
import { prefixedColumns } from '../formats/resultColumns.js';
import type { WriteOptions } from '../formats/RowFormat.js';

/** The format that all answers of a run are held to, but for rows with a format of their own. */
export interface FormatOptions {
  readonly responseFormat?: ResponseFormat;
  /** A schema of zod 4, in place of `responseFormat`. */
  readonly schema?: AnswerSchema;
  /** Or what each row is asked. */
  readonly questions?: readonly Question[];
  readonly confidence?: boolean;
}

/** The format that options come to. @throws UsageError for a schema that has none, and for both */
export function runFormat({ responseFormat, schema }: FormatOptions): ResponseFormat | undefined {
  if (schema === undefined) return responseFormat && responseFormatOf(responseFormat);
  if (responseFormat !== undefined) throw new UsageError('found both schema and responseFormat, expected one of them');
  return { type: 'json_schema', schema: zodJsonSchema(schema) };
}

/**
 * The properties of a run's answers, which have a column each in tables; undefined where answers are no objects of
 * known properties.
 * @throws UsageError as above; ResponseFormatError for what is no JSON Schema
 */
export function answerProperties(options: FormatOptions): readonly DeclaredProperty[] | undefined {
  if (options.questions !== undefined) return questionProperties(options.questions, options.confidence ?? true);
  const format = runFormat(options);
  if (format?.type !== 'json_schema') return undefined;
  // What zod makes of an answer is what is written.
  return declaredProperties(options.schema === undefined ? format.schema : zodValueSchema(options.schema));
}

/** A column for each question, and for how sure the model was of its answer. */
function questionProperties(questions: readonly Question[], confidence: boolean): readonly DeclaredProperty[] {
  return settledQuestions('questions', questions).flatMap(({ name, format }): DeclaredProperty[] => [
    { name, type: format?.type === 'json_schema' ? declaredType(format.schema) : 'string' },
    ...(confidence ? [{ name: confidenceColumn(name), type: 'number' } as const] : []),
  ]);
}

/** The parts that results may have beside the usual, and whether these do. */
export type ResultParts = Readonly<
  Record<
    | 'id'
    | 'sample'
    | 'value'
    | 'reasoning'
    | 'toolCalls'
    | 'truncated'
    | 'attempts'
    | 'model'
    | 'confidence'
    | 'leastConfidence'
    | 'logprobs'
    | 'chunk'
    | 'merged',
    boolean
  >
>;

/**
 * Tells which parts the results of a run with such options have.
 * @param id whether their ids stand in a column of their own
 * @param cascade whether several models answer
 */
export function partsOf(
  task: JobTaskName,
  {
    samples,
    reasoning,
    tools,
    toolChoice,
    truncate = 'off',
    retries = 0,
    logprobs,
    chunkTokens,
    merge,
    ...format
  }: FormatOptions & RunParts,
  id: boolean,
  cascade = false,
): ResultParts {
  const asked = format.questions !== undefined;
  return {
    id,
    sample: samples !== undefined,
    value: runFormat(format)?.type === 'json_schema',
    reasoning: reasoning === 'separate',
    toolCalls: task === 'generate' && (tools ?? toolChoice) !== undefined,
    truncated: truncate !== 'off',
    attempts: retries > 0,
    model: cascade,
    confidence: format.confidence ?? (asked || (cascade && task === 'generate')),
    leastConfidence: format.confidence === true && !asked,
    logprobs: logprobs !== undefined,
    chunk: hasChunkRows({ chunkTokens, merge }),
    merged: merge !== undefined,
  };
}

type RunParts = Pick<
  GenerateOptions,
  'samples' | 'reasoning' | 'tools' | 'toolChoice' | 'truncate' | 'retries' | 'logprobs' | 'chunkTokens' | 'merge'
>;

/** Options that decide how embeddings stand in tables. */
export type VectorOptions = Pick<EmbedOptions, 'encoding' | 'vectorType'> & {
  readonly vectorRanges?: unknown;
};

const VECTOR_PARTS = {
  float32: 'vector',
  float16: 'vector16',
  int8: 'vector8',
  uint8: 'bytes',
  binary: 'vector8',
  ubinary: 'bytes',
} as const;

function vectorParts({ encoding, vectorType = 'float32', vectorRanges }: VectorOptions): readonly string[] {
  return [
    encoding === 'base64' ? 'base64' : VECTOR_PARTS[vectorType],
    ...(vectorType === 'int8' && vectorRanges === undefined ? ['scale'] : []),
  ];
}

/**
 * How results are written.
 * @param answers what they were held to, and how embeddings are encoded
 * @throws UsageError, ResponseFormatError for what answers are held to
 */
export function writeOptions(
  there: ResultParts & { readonly key?: boolean },
  answers: FormatOptions & VectorOptions,
  {
    resultColumns = {},
    resultPrefix,
    delimiter,
    ...options
  }: Omit<WriteOptions, 'parts' | 'properties' | 'resultColumns'> &
    Partial<Pick<WriteOptions, 'resultColumns'>> & { readonly resultPrefix?: string },
): WriteOptions {
  const properties = answerProperties(answers);
  const parts = [...Object.entries(there).flatMap(([part, has]) => (has ? [part] : [])), ...vectorParts(answers)];
  return {
    ...options,
    resultColumns: prefixedColumns(resultColumns, resultPrefix, properties),
    parts,
    ...(properties && { properties }),
    ...(delimiter !== undefined && { delimiter }),
  };
}
