import { checkMembers, type Check } from '../arguments/checkMembers.js';
import { checkBoolean, checkFunction } from '../arguments/checks.js';
import { found } from '../arguments/found.js';
import { object, text } from '../arguments/memberChecks.js';
import { isIterable, membersOf } from '../arguments/isObject.js';
import { UsageError } from '../errors/UsageError.js';
import type { GenerateOptions } from '../Row.js';
import { checkResponseFormat } from '../rows/responseFormat.js';
import { answerProperties } from './output/writeOptions.js';
import { checkColumns, checkDelimiter, checkNamesOfColumns, checkResultColumns } from './formats/checkColumns.js';
import { isInputPaths } from './input/inputFiles.js';
import { checkMaxErrors } from './ErrorLimit.js';
import { checkFormat } from './formats/rowFormats.js';
import type { JobOptions, RowGenerator } from './JobOptions.js';
import { checkShard } from './shards/Shard.js';

const CHECKS: Readonly<Record<keyof JobOptions, Check>> = {
  input: checkInput,
  inputFormat: checkFormat,
  columns: checkColumns,
  delimiter: checkDelimiter,
  carryFields: checkBoolean,
  output: checkOutput,
  outputFormat: checkFormat,
  resultColumns: checkNamesOfColumns,
  errors: text("a file's path"),
  maxErrors: checkMaxErrors,
  shard: checkShard,
  resume: checkBoolean,
  retryErrors: checkBoolean,
  overwrite: checkBoolean,
  modelFiles: checkPaths,
  resultIdentity: object,
  identity: object,
  generate: (name, value) => {
    object(name, value);
    const { responseFormat } = value as GenerateOptions;
    if (responseFormat !== undefined) checkResponseFormat(`${name}.responseFormat`, responseFormat);
  },
  classify: object,
  score: object,
  embed: object,
};

/**
 * Checks what a JavaScript caller hands over as a job. @throws UsageError naming the option, what was found and what
 * was expected
 */
export function checkJobOptions(options: unknown): asserts options is JobOptions {
  checkMembers('options', options, CHECKS);
  // These two have no default.
  const { input, output, resultColumns, generate = {} } = options as Partial<JobOptions>;
  checkInput('input', input);
  checkOutput('output', output);
  if (resultColumns !== undefined) checkResultColumns('resultColumns', resultColumns, answerProperties(generate));
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
  if (typeof output !== 'string' && !hasMethods(output, 'write', 'end', 'on'))
    throw new UsageError(`${name}: found ${found(output)}, expected a file's path or a Writable`);
}

function checkPaths(name: string, value: unknown): void {
  if (Array.isArray(value) && value.every((path) => typeof path === 'string')) return;
  throw new UsageError(`${name}: found ${found(value)}, expected an array of paths`);
}

function hasMethods(value: unknown, ...names: readonly string[]): boolean {
  const members = membersOf(value);
  return names.every((name) => typeof members[name] === 'function');
}
