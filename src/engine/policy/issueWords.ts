import type { z } from 'zod';
import { foundJson } from '../../arguments/foundJson.js';

/** The first thing that is wrong with a document, in words: which field, what was found there, what was expected. */
export function issueWords(error: z.ZodError, document: unknown): { field: string; found: string; expected: string } {
  const issue = error.issues[0];
  const path = issue?.path ?? [];
  let value: unknown = document;
  for (const key of path) value = typeof value === 'object' && value !== null && Object.hasOwn(value, key) ? (value as Record<PropertyKey, unknown>)[key] : undefined;
  const field = path.map(String).join('.') || 'document';
  if (issue?.code === 'unrecognized_keys') return { field, found: `the unknown field ${issue.keys.slice(0, 3).join(', ')}`, expected: 'only known fields' };
  return { field, found: value === undefined ? 'nothing' : foundJson(value), expected: expectedWords(issue) };
}

function expectedWords(issue: z.core.$ZodIssue | undefined): string {
  switch (issue?.code) {
    case 'too_small':
      return issue.origin === 'array' ? `a list of at least ${issue.minimum}` : `a number ${issue.inclusive === false ? 'above' : 'of at least'} ${issue.minimum}`;
    case 'too_big':
      return `${issue.origin === 'array' ? 'a list of' : 'a number of'} at most ${issue.maximum}`;
    case 'invalid_type':
      return `a value of type ${issue.expected}`;
    case 'invalid_value':
      return `one of ${issue.values.map(String).join(', ')}`;
    default:
      return issue?.message.replace(/^expected /, '') ?? 'a valid document';
  }
}
