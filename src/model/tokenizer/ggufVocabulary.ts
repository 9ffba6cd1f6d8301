import type { AddedToken } from './AddedTokens.js';
import { checkAddedTokens } from './addedTokenList.js';
import { ChatTemplate } from './ChatTemplate.js';
import { Fields } from '../files/Fields.js';
import { TOKENIZER_LIMITS } from '../files/limits.js';
import { Guard } from './Guard.js';
import type { TokenizerParts } from './PartsTokenizer.js';

/** `tokenizer.ggml.token_type`. Normal tokens are 1. */
const UNKNOWN = 2;
const CONTROL = 3;
export const USER_DEFINED = 4;
export const UNUSED = 5;
export const BYTE = 6;

/**
 * Tokens that end a text or a turn, whatever else a file names, as in llama.cpp (but for those of filling in the
 * middle).
 */
const ENDS: ReadonlySet<string> = new Set([
  '<|im_end|>',
  '<|eot_id|>',
  '<|eom_id|>',
  '<|end|>',
  '<end_of_turn>',
  '<|endoftext|>',
  '<|end_of_text|>',
  '<EOT>',
  '_<EOT>',
]);

/**
 * Tokens that end a turn of models whose messages have channels (gpt-oss): where both are there `<|end|>` ends a
 * message alone, after which the answer goes on, as in llama.cpp.
 */
const CHANNEL_ENDS = ['<|return|>', '<|call|>'] as const;
const MESSAGE_END = '<|end|>';

export interface GgufVocabulary {
  readonly guard: Guard;
  readonly fields: Fields;
  readonly get: (key: string) => unknown;
  readonly tokens: readonly string[];
  /** The first id of each token: some files have a text twice. */
  readonly ids: ReadonlyMap<string, number>;
  readonly types: ArrayLike<number> | undefined;
  /** Chat templates by name. */
  readonly templates: ReadonlyMap<string, string>;
}

export function readTokens(metadata: ReadonlyMap<string, unknown>): GgufVocabulary {
  const fields = new Fields('GGUF metadata');
  const get = (key: string): unknown => metadata.get(`tokenizer.ggml.${key}`);
  const list = fields.array('tokenizer.ggml.tokens', get('tokens'));
  if (list.length === 0 || list.length > TOKENIZER_LIMITS.tokenId)
    fields.refuse('tokenizer.ggml.tokens', `${list.length} tokens`, `1 to ${TOKENIZER_LIMITS.tokenId}`);
  const tokens = list.map((token, i) => fields.tokenText(`tokenizer.ggml.tokens[${i}]`, token));
  const types =
    get('token_type') === undefined ? undefined : fields.numbers('tokenizer.ggml.token_type', get('token_type'));
  if (types !== undefined && types.length !== tokens.length) {
    fields.refuse('tokenizer.ggml.token_type', `${types.length} types`, `${tokens.length}, one a token`);
  }
  const ids = new Map<string, number>();
  tokens.forEach((token, id) => {
    if (!ids.has(token)) ids.set(token, id);
  });
  return { guard: new Guard(fields), fields, get, tokens, ids, types, templates: chatTemplates(metadata, fields) };
}

const TEMPLATE = 'tokenizer.chat_template';

/** `tokenizer.chat_template`, and those that have names: `tokenizer.chat_template.NAME`. */
function chatTemplates(metadata: ReadonlyMap<string, unknown>, fields: Fields): ReadonlyMap<string, string> {
  const templates = new Map<string, string>();
  for (const [key, value] of metadata) {
    if (key === TEMPLATE) templates.set('default', fields.string(key, value));
    else if (key.startsWith(`${TEMPLATE}.`)) templates.set(key.slice(TEMPLATE.length + 1), fields.string(key, value));
  }
  return templates;
}

export function isControl(type: number | undefined): boolean {
  return type === UNKNOWN || type === CONTROL;
}

/** Control, unknown and user-defined tokens are matched in the text before anything else. */
export function addedTokens(
  { fields, tokens, types, ids }: GgufVocabulary,
  contentOf: (token: string) => string,
  normalized: boolean,
): AddedToken[] {
  const added: AddedToken[] = [];
  tokens.forEach((token, id) => {
    const type = types?.[id];
    if ((!isControl(type) && type !== USER_DEFINED) || ids.get(token) !== id) return;
    const content = contentOf(token);
    if (content === '') return;
    const special = type !== USER_DEFINED;
    added.push({
      id,
      content,
      special,
      normalized: normalized && !special,
      singleWord: false,
      stripLeft: false,
      stripRight: false,
    });
  });
  return checkAddedTokens(fields, added);
}

/**
 * An id of the metadata; absent is undefined, and so is the largest 32-bit integer, which some writers put for "none".
 */
export function optionalId({ fields, get, tokens }: GgufVocabulary, key: string): number | undefined {
  const value = get(key);
  if (value === undefined || value === 0xffffffff || value === -1) return undefined;
  const id = fields.tokenId(`tokenizer.ggml.${key}`, value);
  if (id >= tokens.length)
    fields.refuse(`tokenizer.ggml.${key}`, String(id), `an id below ${tokens.length}, the number of tokens`);
  return id;
}

export function common(
  vocabulary: GgufVocabulary,
  addBeginByDefault: boolean,
  addEndByDefault = false,
): Pick<TokenizerParts, 'prefix' | 'suffix' | 'beginToken' | 'endTokens' | 'chatTemplate'> {
  const { guard, fields, get, tokens, types, templates } = vocabulary;
  const begin = optionalId(vocabulary, 'bos_token_id');
  const end = optionalId(vocabulary, 'eos_token_id');
  const addBegin =
    fields.flag('tokenizer.ggml.add_bos_token', get('add_bos_token'), addBeginByDefault) && begin !== undefined;
  const addEnd =
    fields.flag('tokenizer.ggml.add_eos_token', get('add_eos_token'), addEndByDefault) && end !== undefined;
  const ends = new Set<number>();
  const isControl = (id: number): boolean => types?.[id] === CONTROL || types?.[id] === USER_DEFINED;
  const channelEnds = CHANNEL_ENDS.map((text) => tokens.findIndex((token, id) => token === text && isControl(id)));
  const hasChannels = channelEnds.every((id) => id >= 0);
  if (hasChannels) for (const id of channelEnds) ends.add(id);
  for (const id of [end, optionalId(vocabulary, 'eot_token_id'), optionalId(vocabulary, 'eom_token_id')])
    if (id !== undefined) ends.add(id);
  tokens.forEach((token, id) => {
    if (isControl(id) && ENDS.has(token) && !(hasChannels && token === MESSAGE_END)) ends.add(id);
  });
  const variables: Record<string, string> = {};
  for (const [name, id] of [
    ['bos_token', begin],
    ['eos_token', end],
    ['unk_token', optionalId(vocabulary, 'unknown_token_id')],
    ['pad_token', optionalId(vocabulary, 'padding_token_id')],
  ] as const) {
    if (id !== undefined) variables[name] = tokens[id] ?? '';
  }
  return {
    prefix: addBegin ? [begin] : [],
    suffix: addEnd ? [end] : [],
    beginToken: addBegin ? begin : undefined,
    endTokens: [...ends],
    chatTemplate: templates.size === 0 ? undefined : new ChatTemplate(templates, variables, guard),
  };
}
