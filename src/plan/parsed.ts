import type * as z from 'zod';
import { PlanFileError } from '../errors/ModelFileError.js';
import { UsageError } from '../errors/UsageError.js';
import { foundJson } from '../arguments/found.js';
import { listMissing, printable } from '../model/files/printable.js';

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

/** A fault of a document or an argument, in words. */
interface Issue {
  /** Its path, e.g. `cpu.matmul.0.tokens`; the empty text for the whole of it. */
  readonly field: string;
  readonly found: string;
  readonly expected: string;
}

/** The first thing that is wrong with a document. */
function issueWords(error: z.ZodError, document: unknown): Issue {
  const [first] = error.issues;
  // A whole number that is too large is beyond what numbers hold, and beyond what the field allows: the lower bound
  // tells more.
  const bounds = error.issues.flatMap((each) =>
    each.code === 'too_big' && each.path.join('.') === first?.path.join('.') ? [each] : [],
  );
  const issue = first?.code === 'too_big' ? bounds.reduce((a, b) => (b.maximum < a.maximum ? b : a)) : first;
  const path = issue?.path ?? [];
  if (issue?.code === 'invalid_key')
    return {
      field: fieldOf(path.slice(0, -1)),
      found: `the name ${printable(String(path.at(-1)))}`,
      expected: expectedWords(issue.issues[0], path.at(-1)),
    };
  let value: unknown = document;
  for (const key of path)
    value =
      typeof value === 'object' && value !== null && Object.hasOwn(value, key)
        ? (value as Record<PropertyKey, unknown>)[key]
        : undefined;
  const field = fieldOf(path);
  if (issue?.code === 'unrecognized_keys')
    return { field, found: `the unknown field ${listMissing(issue.keys.slice(0, 3))}`, expected: 'only known fields' };
  return { field, found: value === undefined ? 'nothing' : foundJson(value), expected: expectedWords(issue, value) };
}

function fieldOf(path: readonly PropertyKey[]): string {
  return path.map((key) => printable(String(key))).join('.');
}

/** By zod's names. */
const TYPES: Readonly<Record<string, string>> = {
  number: 'a number',
  int: 'a whole number',
  string: 'a string',
  boolean: 'true or false',
  array: 'a list',
  object: 'an object',
  record: 'an object',
};

function expectedWords(issue: z.core.$ZodIssue | undefined, value: unknown): string {
  switch (issue?.code) {
    case 'too_small':
      if (issue.origin === 'string') return `a text of at least ${issue.minimum} characters`;
      return issue.origin === 'array'
        ? `a list of at least ${issue.minimum}`
        : `a number ${issue.inclusive === false ? 'above' : 'of at least'} ${issue.minimum}`;
    case 'too_big':
      if (issue.origin === 'string') return `a text of at most ${issue.maximum} characters`;
      return `${issue.origin === 'array' ? 'a list of' : 'a number of'} at most ${issue.maximum}`;
    case 'invalid_type':
      if (issue.expected === 'number' && (value === Infinity || value === -Infinity)) return 'a finite number';
      return TYPES[issue.expected] ?? `a value of type ${issue.expected}`;
    case 'invalid_value':
      return issue.values.length === 1 ? String(issue.values[0]) : `one of ${issue.values.map(String).join(', ')}`;
    case 'invalid_union':
      if ('options' in issue && Array.isArray(issue.options)) return `one of ${issue.options.map(String).join(', ')}`;
      return issue.errors.map(([each]) => expectedWords(each, value)).join(' or ');
    default:
      return issue?.message.replace(/^expected /, '') ?? 'a valid document';
  }
}
