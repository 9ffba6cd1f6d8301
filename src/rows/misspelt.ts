import { nearest } from '../arguments/nearest.js';
import { NUMBERS, PROMPTS, TEXT_LISTS, TOKEN_LISTS } from './rowFields.js';

/** Fields of a row that somebody may mean who writes another name. */
const FIELDS = [...PROMPTS, ...NUMBERS, ...TOKEN_LISTS, 'stop', 'tools', 'templateArgs', 'responseFormat'] as const;
/** What else a row has, in files or in programs. */
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
  ...TEXT_LISTS,
]);

/** What other tools call them. */
const ELSEWHERE: Readonly<Record<string, (typeof FIELDS)[number]>> = {
  max_tokens: 'maxNewTokens',
  maxTokens: 'maxNewTokens',
  max_completion_tokens: 'maxNewTokens',
  max_output_tokens: 'maxNewTokens',
  n_predict: 'maxNewTokens',
  num_predict: 'maxNewTokens',
  stop_sequences: 'stop',
  chat_template_kwargs: 'templateArgs',
  chat_template_args: 'templateArgs',
  repeat_penalty: 'repetitionPenalty',
  num_return_sequences: 'samples',
  min_tokens: 'minNewTokens',
  bad_words_ids: 'badWords',
  sequence_bias: 'logitBias',
};

/** Shorter names are near to too many words: `steps`, `topic`, `seen`. Longer ones are near to none of ours. */
const LEAST_LETTERS = 8;
const MOST_LETTERS = 64;
/** A row of more fields is none that somebody has written and misspelt. */
const MOST_NAMES = 1_000;

/**
 * The first of these names that is none of a row's, but was probably meant to be one: its spelling alone differs
 * (`top_p`), it is a few letters away (`temprature`), or other tools call it so (`max_tokens`).
 */
export function misspelt(names: readonly string[]): { readonly name: string; readonly meant: string } | undefined {
  for (const name of names.slice(0, MOST_NAMES)) {
    if (name.length > MOST_LETTERS || KNOWN.has(name)) continue;
    const meant = meantBy(name);
    if (meant !== undefined) return { name, meant };
  }
  return undefined;
}

/** Rows have the same names again and again. */
const judged = new Map<string, string | undefined>();
const MOST_JUDGED = 1024;

function meantBy(name: string): string | undefined {
  if (judged.has(name)) return judged.get(name);
  const meant = Object.hasOwn(ELSEWHERE, name)
    ? ELSEWHERE[name]
    : (FIELDS.find((field) => plain(field) === plain(name)) ?? longNearest(name));
  if (judged.size < MOST_JUDGED) judged.set(name, meant);
  return meant;
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
