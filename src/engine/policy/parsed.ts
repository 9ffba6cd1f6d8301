import type { z } from 'zod';
import { PlanFileError } from '../../errors/PlanFileError.js';
import { UsageError } from '../../errors/UsageError.js';
import { issueWords } from './issueWords.js';

/**
 * A file's contents by their schema, defaults filled in.
 * @throws PlanFileError naming the field, what was found and what was expected
 */
export function parsedFile<T>(schema: z.ZodType<T>, value: unknown, file: string): T {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const { field, found, expected } = issueWords(parsed.error, value);
  throw new PlanFileError(file, field || 'document', found, expected);
}

/**
 * An argument by its schema, defaults filled in.
 * @throws UsageError naming the field, what was found and what was expected
 */
export function parsedArgument<T>(schema: z.ZodType<T>, value: unknown, name: string): T {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const { field, found, expected } = issueWords(parsed.error, value);
  throw new UsageError(`${field ? `${name}.${field}` : name}: found ${found}, expected ${expected}`);
}
