import type { z } from 'zod';
import { PlanFileError } from '../errors/ModelFileError.js';
import { UsageError } from '../errors/UsageError.js';
import { issueWords, type Issue } from './issueWords.js';

/**
 * A file's contents by their schema, defaults filled in.
 * @throws PlanFileError naming the field, what was found and what was expected
 */
export function parsedFile<T>(schema: z.ZodType<T>, value: unknown, file: string): T {
  return parsed(
    schema,
    value,
    ({ field, found, expected }) => new PlanFileError(file, field || 'document', found, expected),
  );
}

/**
 * An argument by its schema, defaults filled in.
 * @throws UsageError naming the field, what was found and what was expected
 */
export function parsedArgument<T>(schema: z.ZodType<T>, value: unknown, name: string): T {
  return parsed(
    schema,
    value,
    ({ field, found, expected }) =>
      new UsageError(`${field ? `${name}.${field}` : name}: found ${found}, expected ${expected}`),
  );
}

function parsed<T>(schema: z.ZodType<T>, value: unknown, failure: (issue: Issue) => Error): T {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  throw failure(issueWords(result.error, value));
}
