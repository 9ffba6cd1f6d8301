import type { AddedToken } from './AddedTokens.js';
import { foundInFile } from '../../arguments/found.js';
import type { Fields, JsonObject } from '../files/Fields.js';
import { TOKENIZER_LIMITS } from '../files/limits.js';

/** The names under which tokenizer_config.json declares special tokens. */
const SPECIAL_NAMES = [
  'bos_token',
  'eos_token',
  'unk_token',
  'sep_token',
  'pad_token',
  'cls_token',
  'mask_token',
] as const;

/** The settings of tokenizer_config.json, and the fields to name its faults by. */
export interface TokenizerSettings {
  readonly fields: Fields;
  readonly config: JsonObject;
}

/** Reads one entry of `added_tokens`, or of tokenizer_config.json's `added_tokens_decoder`. */
function readAddedToken(fields: Fields, field: string, value: unknown, id: unknown): AddedToken {
  const entry = fields.object(field, value);
  const special = fields.flag(`${field}.special`, entry.special, false);
  return {
    id: fields.tokenId(`${field}.id`, id),
    content: fields.tokenText(`${field}.content`, entry.content),
    special,
    normalized: fields.flag(`${field}.normalized`, entry.normalized, !special),
    singleWord: fields.flag(`${field}.single_word`, entry.single_word, false),
    stripLeft: fields.flag(`${field}.lstrip`, entry.lstrip, false),
    stripRight: fields.flag(`${field}.rstrip`, entry.rstrip, false),
  };
}

/** The text of a special token in tokenizer_config.json: plain, or an object with `content`. */
export function specialContent({ fields, config }: TokenizerSettings, name: string): string | undefined {
  const value = config[name];
  if (value === undefined || value === null) return undefined;
  if (typeof value === 'string') return fields.tokenText(name, value);
  return fields.tokenText(`${name}.content`, fields.object(name, value).content);
}

/**
 * All added tokens: those of tokenizer.json, as tokenizer_config.json overrides them, and the special tokens that only
 * the latter names. An id that the vocabulary gives to the same text goes before the list's own, as in the reference.
 */
export function readAddedTokens(
  fields: Fields,
  list: unknown,
  settings: TokenizerSettings,
  vocabulary: ReadonlyMap<string, number>,
): AddedToken[] {
  const { config } = settings;
  const byContent = new Map<string, AddedToken>();
  /** Texts that stand in tokenizer.json. */
  const listed = new Set<string>();
  const add = (token: AddedToken): void => {
    if (token.content === '') return;
    byContent.set(token.content, { ...token, id: vocabulary.get(token.content) ?? token.id });
  };
  if (list !== undefined && list !== null) {
    fields.array('added_tokens', list).forEach((item, i) => {
      const field = `added_tokens[${i}]`;
      const token = readAddedToken(fields, field, item, fields.object(field, item).id);
      listed.add(token.content);
      add(token);
    });
    checkAddedTokens(fields, [...byContent.values()]);
  }
  if (config.added_tokens_decoder !== undefined && config.added_tokens_decoder !== null) {
    const entries = settings.fields.object('added_tokens_decoder', config.added_tokens_decoder);
    for (const [key, item] of Object.entries(entries)) {
      const id = /^\d{1,7}$/.test(key)
        ? Number(key)
        : settings.fields.refuse('added_tokens_decoder', foundInFile(key), `an id up to ${TOKENIZER_LIMITS.tokenId}`);
      add(readAddedToken(settings.fields, `added_tokens_decoder.${key}`, item, id));
    }
  }
  const special: string[] = [];
  for (const name of SPECIAL_NAMES) special.push(specialContent(settings, name) ?? '');
  for (const name of ['additional_special_tokens', 'extra_special_tokens']) {
    if (Array.isArray(config[name]))
      for (const item of config[name] as unknown[]) if (typeof item === 'string') special.push(item);
  }
  for (const content of special) {
    const id = vocabulary.get(content);
    const known = byContent.get(content);
    if (known !== undefined) byContent.set(content, { ...known, special: true });
    else if (id !== undefined)
      add({ id, content, special: true, normalized: false, singleWord: false, stripLeft: false, stripRight: false });
  }
  const owner = new Map<number, string>();
  for (const { id, content } of byContent.values()) {
    const other = owner.get(id);
    if (other !== undefined) {
      const [at, field] = listed.has(content) ? [fields, 'added_tokens'] : [settings.fields, 'added_tokens_decoder'];
      at.refuse(field, `id ${id} for both ${foundInFile(other)} and ${foundInFile(content)}`, 'one text an id');
    }
    owner.set(id, content);
  }
  return checkAddedTokens(settings.fields, [...byContent.values()], 'added_tokens_decoder');
}

/** The automaton that finds them takes memory for each unit of theirs. */
export function checkAddedTokens(fields: Fields, tokens: AddedToken[], field = 'added_tokens'): AddedToken[] {
  const units = tokens.reduce((sum, { content }) => sum + content.length, 0);
  fields.atMost(field, units, TOKENIZER_LIMITS.addedTokenUnits, 'UTF-16 units in all');
  return tokens;
}
