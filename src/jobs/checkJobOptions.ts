import { checkBoolean, checkFunction, checkOneOf } from '../arguments/checks.js';
import { found } from '../arguments/found.js';
import { checkObject } from '../arguments/objectArgument.js';
import { UsageError } from '../errors/UsageError.js';
import type { JobOptions, RowGenerator } from './JobOptions.js';

const OPTIONS: readonly (keyof JobOptions)[] = [
  'input', 'inputFormat', 'carryFields', 'output', 'resume', 'retryErrors', 'overwrite', 'modelFiles', 'identity', 'generate',
];

/** Checks what a JavaScript caller hands over as a job. @throws UsageError naming the option, what was found and what was expected */
export function checkJobOptions(options: unknown): asserts options is JobOptions {
  checkObject('options', options, OPTIONS);
  const { input, inputFormat, output, modelFiles, identity, generate, ...switches } = options as Partial<Record<keyof JobOptions, unknown>>;
  checkInput(input);
  if (typeof output !== 'string' && !hasMethods(output, 'write', 'end', 'on')) throw new UsageError(`output: found ${found(output)}, expected a file's path or a Writable`);
  if (inputFormat !== undefined) checkOneOf('inputFormat', inputFormat, ['jsonl', 'text']);
  for (const name of ['carryFields', 'resume', 'retryErrors', 'overwrite'] as const) checkBoolean(name, switches[name]);
  if (modelFiles !== undefined && !(Array.isArray(modelFiles) && modelFiles.every((file) => typeof file === 'string'))) {
    throw new UsageError(`modelFiles: found ${found(modelFiles)}, expected an array of paths`);
  }
  if (identity !== undefined) checkObject('identity', identity);
  if (generate !== undefined) checkObject('generate', generate);
}

/** @throws UsageError unless it can generate rows */
export function checkRowGenerator(engine: unknown): asserts engine is RowGenerator {
  if (typeof engine !== 'object' || engine === null) throw new UsageError(`engine: found ${found(engine)}, expected an Engine, or an object that generates rows as one does`);
  const { generate } = engine as Partial<RowGenerator>;
  if (generate === undefined) throw new UsageError(`engine: found ${found(engine)} without a method generate, expected an Engine, or an object that generates rows as one does`);
  checkFunction('engine.generate', generate);
}

function checkInput(input: unknown): void {
  if (typeof input === 'string' || hasMethods(input, Symbol.asyncIterator) || hasMethods(input, Symbol.iterator)) return;
  if (hasMethods(input, 'subscribe', 'pipe')) throw new UsageError('input: found an Observable, which cannot be pulled, expected a file\'s path or an iterable of rows; give pulled(rows$)');
  throw new UsageError(`input: found ${found(input)}, expected a file's path or an iterable of rows`);
}

function hasMethods(value: unknown, ...names: readonly (string | symbol)[]): boolean {
  return typeof value === 'object' && value !== null && names.every((name) => typeof (value as Record<string | symbol, unknown>)[name] === 'function');
}
