import { checkMembers, type Check } from '../arguments/checkMembers.js';
import { checkBoolean, checkFunction } from '../arguments/checks.js';
import { found } from '../arguments/found.js';
import { object, text, whole } from '../arguments/memberChecks.js';
import { isIterable, membersOf } from '../arguments/isObject.js';
import { UsageError } from '../errors/UsageError.js';
import { type ClassifyOptions, JOB_TASKS, type ScoreOptions } from '../Results.js';
import type { GenerateOptions, PromptOptions } from '../Row.js';
import { checkedCompletions, checkedLabels, forTheRun } from '../rows/completions.js';
import { ROW_LIMITS } from '../model/files/limits.js';
import { checkPromptTemplate } from '../rows/promptTemplate.js';
import { checkChunkOptions, hasChunkRows } from '../rows/chunks.js';
import { checkAskedOptions, settledQuestions } from '../rows/questions.js';
import { checkToolOptions } from '../rows/tools.js';
import { checkResponseFormat } from '../rows/responseFormat.js';
import { checkTemplateInput } from '../rows/templateInput.js';
import { answerProperties } from './output/writeOptions.js';
import { checkColumns, checkDelimiter, checkNamesOfColumns, checkResultColumns } from './formats/checkColumns.js';
import { checkDatabaseOutput, isDatabaseOutput } from './database/DatabaseOutput.js';
import { isInputPaths } from './input/inputFiles.js';
import { checkMaxErrors } from './ErrorLimit.js';
import { checkFormat, FORMAT_NAMES } from './formats/rowFormats.js';
import type { JobOptions, RowGenerator } from './JobOptions.js';
import { checkSample, LIMIT, SAMPLE_SEED } from './RowSubset.js';
import { checkTruth } from './Truth.js';
import { checkShard, SHARD_ROWS, SHARDS } from './shards/Shard.js';
import { LEASE_SECONDS, MAX_DELIVER } from './work/JobManifest.js';

/**
 * The allowed values of options of jobs, and their defaults, where the options' types do not tell: for flags, forms and
 * checks of one's own.
 */
export const JOB_OPTIONS = {
  /** The tasks that are done with rows. */
  tasks: JOB_TASKS,
  /** The formats of files. */
  formats: FORMAT_NAMES,
  /** Most bytes of a row's line. */
  lineBytes: ROW_LIMITS.lineBytes,
  /** Most bytes that a row's values may take in memory, roughly. */
  rowBytes: ROW_LIMITS.rowBytes,
  /** Most bytes of a text that is scored in windows. */
  scoredBytes: ROW_LIMITS.scoredBytes,
  limit: LIMIT,
  sampleSeed: SAMPLE_SEED,
  shards: SHARDS,
  shardRows: SHARD_ROWS,
  maxDeliver: MAX_DELIVER,
  leaseSeconds: LEASE_SECONDS,
} as const;

const CHECKS: Readonly<Record<keyof JobOptions, Check>> = {
  input: checkInput,
  inputFormat: checkFormat,
  columns: checkColumns,
  onColumns: checkFunction,
  delimiter: checkDelimiter,
  carryFields: checkBoolean,
  output: checkOutput,
  outputFormat: checkFormat,
  resultColumns: checkNamesOfColumns,
  resultPrefix: text('what goes before names of columns'),
  errors: text("a file's path"),
  maxErrors: checkMaxErrors,
  truth: checkTruth,
  cascade: checkBoolean,
  shard: checkShard,
  limit: whole(LIMIT.least),
  sample: checkSample,
  sampleSeed: whole(SAMPLE_SEED.least),
  resume: checkBoolean,
  retryErrors: checkBoolean,
  overwrite: checkBoolean,
  modelFiles: checkPaths,
  resultIdentity: object,
  identity: object,
  generate: (name, value) => {
    checkPrompts(name, value);
    const { responseFormat, questions, tools, toolChoice, parallelToolCalls } = value as GenerateOptions;
    if (questions !== undefined) settledQuestions(`${name}.questions`, questions);
    checkAskedOptions(value as object);
    checkChunkOptions(value as object);
    if ((tools ?? toolChoice ?? parallelToolCalls) !== undefined) checkToolOptions(value as GenerateOptions);
    if (responseFormat !== undefined) checkResponseFormat(`${name}.responseFormat`, responseFormat);
  },
  classify: (name, value) => {
    checkPrompts(name, value);
    const { labels } = value as ClassifyOptions;
    if (labels !== undefined) forTheRun(() => checkedLabels(labels));
  },
  score: (name, value) => {
    checkPrompts(name, value);
    const { completions } = value as ScoreOptions;
    if (completions !== undefined) forTheRun(() => checkedCompletions('completions', completions));
  },
  rerank: object,
  embed: (name, value) => {
    checkPrompts(name, value);
    checkChunkOptions(value as object);
  },
};

/**
 * Checks options of a job as far as they are there, before a file or a model is opened: for flags, forms and
 * configurations of one's own. What only the model can tell it leaves to the run.
 * @throws UsageError naming the option, what was found and what was expected
 */
export function checkJobOptions(options: Partial<JobOptions>): void {
  checkMembers('options', options, CHECKS);
  const { resultColumns, limit, sample, sampleSeed, shard, generate = {} } = options;
  if (limit !== undefined && sample !== undefined)
    throw new UsageError(`sample: found ${sample} beside a limit of ${limit} rows, expected one of them`);
  if (sampleSeed !== undefined && sample === undefined)
    throw new UsageError('sampleSeed: found it without a sample, of which it says which one is drawn');
  if (shard !== undefined && (limit ?? sample) !== undefined)
    throw new UsageError(
      `${limit === undefined ? 'sample' : 'limit'}: found it beside a shard, whose part would lack rows, expected one of them`,
    );
  if (options.truth !== undefined) checkCompared('truth', options);
  if (options.cascade === true) checkCompared('cascade', options);
  if (resultColumns !== undefined) checkResultColumns('resultColumns', resultColumns, answerProperties(generate));
}

/** Checks that there is one answer a row, which can be compared. @param name what wants it @throws UsageError */
function checkCompared(name: string, { generate, score, rerank, embed }: Partial<JobOptions>): void {
  const other = Object.entries({ score, rerank, embed }).find(([, task]) => task !== undefined)?.[0];
  if (other !== undefined)
    throw new UsageError(`${name}: found it beside ${other}, expected generate or classify, whose answers are texts`);
  if (generate?.samples !== undefined)
    throw new UsageError(`${name}: found it beside samples, expected one answer a row`);
  if (hasChunkRows(generate ?? {}))
    throw new UsageError(`${name}: found it beside chunkTokens, expected merge, too, which makes one answer a row`);
}

/** The same for a whole job. @throws UsageError, also for one without input or output, which have no default */
export function checkWholeJob(options: unknown): asserts options is JobOptions {
  checkJobOptions(options as Partial<JobOptions>);
  const { input, output } = options as Partial<JobOptions>;
  checkInput('input', input);
  checkOutput('output', output);
}

/** How prompts are made, whatever is done with them. */
function checkPrompts(name: string, value: unknown): void {
  object(name, value);
  const { promptTemplate } = value as PromptOptions;
  if (promptTemplate !== undefined) checkPromptTemplate(`${name}.promptTemplate`, promptTemplate);
  checkTemplateInput(value as PromptOptions);
}

/** @throws UsageError unless it can generate rows */
export function checkRowGenerator(engine: unknown): asserts engine is RowGenerator {
  if (typeof engine !== 'object' || engine === null)
    throw new UsageError(
      `engine: found ${found(engine)}, expected an Engine, or an object that generates rows as one does`,
    );
  const { generate } = engine as Partial<RowGenerator>;
  if (generate === undefined)
    throw new UsageError(
      `engine: found ${found(engine)} without a method generate, expected an Engine, or an object that generates rows as one does`,
    );
  checkFunction('engine.generate', generate);
}

function checkInput(name: string, input: unknown): void {
  if (isInputPaths(input) || isIterable(input)) return;
  if (hasMethods(input, 'subscribe', 'pipe'))
    throw new UsageError(
      `${name}: found an Observable, which cannot be pulled, expected a file's path or an iterable of rows; give pulled(rows$)`,
    );
  throw new UsageError(`${name}: found ${found(input)}, expected a file's path or an iterable of rows`);
}

function checkOutput(name: string, output: unknown): void {
  if (isDatabaseOutput(output)) checkDatabaseOutput(output);
  else if (typeof output !== 'string' && !hasMethods(output, 'write', 'end', 'on'))
    throw new UsageError(
      `${name}: found ${found(output)}, expected a file's path, a Writable or a table of a database`,
    );
}

function checkPaths(name: string, value: unknown): void {
  if (Array.isArray(value) && value.every((path) => typeof path === 'string')) return;
  throw new UsageError(`${name}: found ${found(value)}, expected an array of paths`);
}

function hasMethods(value: unknown, ...names: readonly string[]): boolean {
  const members = membersOf(value);
  return names.every((name) => typeof members[name] === 'function');
}
