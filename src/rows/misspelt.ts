import { nameElsewhere, nearest } from '../arguments/nearest.js';
import { NUMBERS, PROMPTS, PAIRS, TEXT_LISTS, TOKEN_LISTS } from './rowFields.js';

/** Fields of a row that somebody may mean who writes another name. */
const FIELDS = [
  ...PROMPTS,
  ...NUMBERS,
  ...TOKEN_LISTS,
  'stop',
  'tools',
  'toolChoice',
  'parallelToolCalls',
  'templateArgs',
  'responseFormat',
] as const;
/** All fields that a row has, in files or in programs. */
const KNOWN: ReadonlySet<string> = new Set([
  ...FIELDS,
  'id',
  'index',
  'duplicate',
  'wantedSamples',
  'carry',
  'error',
  'chat',
  'fields',
  'response_format',
  'tool_choice',
  'parallel_tool_calls',
  ...TEXT_LISTS,
  ...PAIRS,
]);

/** Tells whether a row may have a field of that name, in files or in programs. */
export function isRowField(name: string): boolean {
  return KNOWN.has(name) || name === 'dimensions';
}

/** Names of other tools' that are data as often: only what they hold tells. */
const BY_VALUE: Readonly<Record<string, (value: unknown) => boolean>> = {
  n: (value) => Number.isInteger(value) && (value as number) > 1,
  temp: () => false,
  schema: () => false,
};

/** Shorter names are near to too many words: `steps`, `topic`, `seen`. Longer ones are near to none of ours. */
const LEAST_LETTERS = 8;
const MOST_LETTERS = 64;
/** A row of more fields is none that somebody has written and misspelt. */
const MOST_NAMES = 1_000;

/**
 * The first of a row's names that is no field, but was probably meant to be one: its spelling alone differs
 * (`top_p`), it is a few letters away (`temprature`), or other tools call it so (`max_tokens`).
 */
export function misspelt(
  row: Readonly<Record<string, unknown>>,
): { readonly name: string; readonly meant: string } | undefined {
  let looked = 0;
  for (const name in row) {
    if (++looked > MOST_NAMES) break;
    if (name.length > MOST_LETTERS || KNOWN.has(name) || !Object.hasOwn(row, name)) continue;
    if (Object.hasOwn(BY_VALUE, name) && BY_VALUE[name]?.(row[name]) !== true) continue;
    const meant = meantBy(name);
    if (meant !== undefined) return { name, meant };
  }
  return undefined;
}

/** A system prompt's place: rows have no field for it. */
const SYSTEM = 'messages of which the first has the role system (or `system`, for all rows)';

/** Rows have the same names again and again. */
const judged = new Map<string, string | undefined>();
const MOST_JUDGED = 1024;

function meantBy(name: string): string | undefined {
  if (judged.has(name)) return judged.get(name);
  const meant =
    FIELDS.find((field) => plain(field) === plain(name)) ?? nameElsewhere(name, FIELDS) ?? longNearest(name);
  const words = meant === 'messages' && plain(name).startsWith('system') ? SYSTEM : meant;
  if (judged.size < MOST_JUDGED) judged.set(name, words);
  return words;
}

function plain(name: string): string {
  return name.toLowerCase().replace(/[-_]/g, '');
}

/** A longer word that begins like one of ours is another: `temperatures`, `promptId`. */
function longNearest(name: string): string | undefined {
  const meant = name.length < LEAST_LETTERS ? undefined : nearest(name, FIELDS);
  return meant === undefined ||
    Math.abs(plain(meant).length - plain(name).length) > 2 ||
    plain(name).startsWith(plain(meant))
    ? undefined
    : meant;
}
