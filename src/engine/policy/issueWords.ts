import type { z } from 'zod';
import { found as valueWords } from '../../arguments/found.js';

const MOST_CHARACTERS = 80;

/** What is wrong with a document or an argument, in words. */
export interface Issue {
  /** Its path, e.g. `cpu.matmul.0.tokens`; the empty text for the whole of it. */
  readonly field: string;
  readonly found: string;
  readonly expected: string;
}

/** The first thing that is wrong with a document. */
export function issueWords(error: z.ZodError, document: unknown): Issue {
  const issue = error.issues[0];
  const path = issue?.path ?? [];
  let value: unknown = document;
  for (const key of path) value = typeof value === 'object' && value !== null && Object.hasOwn(value, key) ? (value as Record<PropertyKey, unknown>)[key] : undefined;
  const field = path.map(String).join('.');
  if (issue?.code === 'unrecognized_keys') return { field, found: `the unknown field ${issue.keys.slice(0, 3).join(', ')}`, expected: 'only known fields' };
  return { field, found: foundWords(value), expected: expectedWords(issue) };
}

/** Lists and objects as JSON, which says more of them, where they can be that; an argument of JavaScript may hold anything. */
function foundWords(value: unknown): string {
  if (value === undefined) return 'nothing';
  const text = typeof value === 'object' ? json(value) ?? valueWords(value) : valueWords(value);
  return text.length > MOST_CHARACTERS ? `${text.slice(0, MOST_CHARACTERS)}…` : text;
}

function json(value: unknown): string | undefined {
  try {
    return JSON.stringify(value);
  } catch {
    return undefined; // something that holds itself, or a bigint
  }
}

/** By zod's names. */
const TYPES: Readonly<Record<string, string>> = { number: 'a number', int: 'a whole number', string: 'a string', boolean: 'true or false', array: 'a list', object: 'an object', record: 'an object' };

function expectedWords(issue: z.core.$ZodIssue | undefined): string {
  switch (issue?.code) {
    case 'too_small':
      return issue.origin === 'array' ? `a list of at least ${issue.minimum}` : `a number ${issue.inclusive === false ? 'above' : 'of at least'} ${issue.minimum}`;
    case 'too_big':
      return `${issue.origin === 'array' ? 'a list of' : 'a number of'} at most ${issue.maximum}`;
    case 'invalid_type':
      return TYPES[issue.expected] ?? `a value of type ${issue.expected}`;
    case 'invalid_value':
      return `one of ${issue.values.map(String).join(', ')}`;
    default:
      return issue?.message.replace(/^expected /, '') ?? 'a valid document';
  }
}
