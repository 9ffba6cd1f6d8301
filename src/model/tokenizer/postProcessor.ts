import { foundInFile } from '../../arguments/found.js';
import type { Fields } from '../files/Fields.js';
import { TOKENIZER_LIMITS } from '../files/limits.js';

/** Ids that a post-processor puts round every prompt. */
export interface Surroundings {
  readonly prefix: readonly number[];
  readonly suffix: readonly number[];
}

const KNOWN = 'one of Sequence, TemplateProcessing, ByteLevel, BertProcessing, RobertaProcessing';

/** Reads tokenizer.json's `post_processor`, as far as it concerns single texts. */
export function readPostProcessor(fields: Fields, value: unknown, field = 'post_processor', depth = 0): Surroundings {
  if (value === null || value === undefined) return { prefix: [], suffix: [] };
  const config = fields.object(field, value);
  fields.checkStep(field, 0, depth);
  switch (config.type) {
    case 'ByteLevel':
      return { prefix: [], suffix: [] };
    case 'Sequence': {
      let prefix: readonly number[] = [];
      let suffix: readonly number[] = [];
      fields.array(`${field}.processors`, config.processors).forEach((item, i) => {
        const outer = readPostProcessor(fields, item, `${field}.processors[${i}]`, depth + 1);
        prefix = [...outer.prefix, ...prefix];
        suffix = [...suffix, ...outer.suffix];
        fields.atMost(field, prefix.length + suffix.length, TOKENIZER_LIMITS.surroundingTokens, 'tokens');
      });
      return { prefix, suffix };
    }
    case 'BertProcessing':
    case 'RobertaProcessing':
      return {
        prefix: [fields.tokenId(`${field}.cls`, fields.array(`${field}.cls`, config.cls)[1])],
        suffix: [fields.tokenId(`${field}.sep`, fields.array(`${field}.sep`, config.sep)[1])],
      };
    case 'TemplateProcessing':
      return template(fields, field, config.single, config.special_tokens);
    default:
      return fields.refuse(`${field}.type`, foundInFile(config.type), KNOWN);
  }
}

function template(fields: Fields, field: string, single: unknown, special: unknown): Surroundings {
  const prefix: number[] = [];
  const suffix: number[] = [];
  let seen = false;
  fields.array(`${field}.single`, single).forEach((item, i) => {
    const at = `${field}.single[${i}]`;
    const entry = fields.object(at, item);
    if (entry.Sequence !== undefined) {
      if (seen || fields.object(at, entry.Sequence).id !== 'A')
        fields.refuse(at, foundInFile(item), 'the sequence A, once');
      seen = true;
      return;
    }
    const name = fields.string(`${at}.SpecialToken.id`, fields.object(at, entry.SpecialToken).id);
    const specials = fields.object(`${field}.special_tokens`, special);
    const declared = Object.hasOwn(specials, name) ? specials[name] : undefined;
    const ids = fields.array(
      `${field}.special_tokens[${foundInFile(name)}].ids`,
      fields.object(`${field}.special_tokens[${foundInFile(name)}]`, declared).ids,
    );
    for (const id of ids)
      (seen ? suffix : prefix).push(fields.tokenId(`${field}.special_tokens[${foundInFile(name)}].ids`, id));
    fields.atMost(field, prefix.length + suffix.length, TOKENIZER_LIMITS.surroundingTokens, 'tokens');
  });
  if (!seen) fields.refuse(`${field}.single`, 'no sequence A', 'the sequence A, once');
  return { prefix, suffix };
}
