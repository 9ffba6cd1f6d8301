import { basename, join } from 'node:path';
import { isObject } from '../../arguments/isObject.js';
import { LANGUAGE_CONFIGS } from '../architectures/textParts.js';
import type { TokenizerSource } from '../ModelSource.js';
import { foundInFile } from '../../arguments/found.js';
import { Fields, type JsonObject } from '../files/Fields.js';
import { HEADER_LIMITS, TOKENIZER_LIMITS } from '../files/limits.js';
import { readJsonObject, readText } from '../files/readJson.js';
import { ADDITIONAL_TEMPLATES, additionalTemplates } from '../modelFiles.js';

/**
 * Reads what a folder says about its tokenizer: tokenizer.json, tokenizer_config.json, the chat template in either of
 * its files of its own, and the end tokens: those of generation_config.json where it names any, as in transformers,
 * else those of config.json.
 * @param present names of the files in the folder
 */
export async function readTokenizerFiles(
  folder: string,
  present: ReadonlySet<string>,
  modelConfig: JsonObject,
): Promise<TokenizerSource> {
  const optional = async (name: string, maxBytes: number): Promise<JsonObject> =>
    present.has(name) ? readJsonObject(join(folder, name), maxBytes) : {};
  // Without a tokenizer too: rows of token ids end at these.
  const generationConfig = await optional('generation_config.json', HEADER_LIMITS.configJsonBytes);
  const declared = endTokensOf(join(folder, 'generation_config.json'), generationConfig);
  const endTokens = [
    ...new Set(declared.length > 0 ? declared : endTokensOf(join(folder, 'config.json'), modelConfig)),
  ];
  if (!present.has('tokenizer.json')) return { kind: 'none', reason: reasonForNone(present), endTokens };

  const file = join(folder, 'tokenizer.json');
  const tokenizer = await readJsonObject(file, HEADER_LIMITS.tokenizerJsonBytes);
  const config = await optional('tokenizer_config.json', HEADER_LIMITS.tokenizerJsonBytes);
  const chatTemplate = await readChatTemplate(folder, present);
  const additionalChatTemplates = await readAdditionalTemplates(folder, present);
  return {
    kind: 'tokenizer.json',
    file,
    tokenizer,
    config,
    endTokens,
    ...(chatTemplate === undefined ? {} : { chatTemplate }),
    ...(additionalChatTemplates && { additionalChatTemplates }),
  };
}

function reasonForNone(present: ReadonlySet<string>): string {
  const older = ['vocab.json', 'tokenizer.model'].find((name) => present.has(name));
  const remedy =
    older === undefined
      ? ''
      : `, only ${older}; AutoTokenizer.from_pretrained(folder).save_pretrained(folder) of transformers makes one`;
  return `the folder has no tokenizer.json${remedy}`;
}

async function readChatTemplate(folder: string, present: ReadonlySet<string>): Promise<string | undefined> {
  if (present.has('chat_template.jinja'))
    return readText(join(folder, 'chat_template.jinja'), HEADER_LIMITS.configJsonBytes);
  if (!present.has('chat_template.json')) return undefined;
  const path = join(folder, 'chat_template.json');
  const { chat_template: template } = await readJsonObject(path, HEADER_LIMITS.configJsonBytes);
  return new Fields(path).string('chat_template', template);
}

/** Templates that have names: `additional_chat_templates/NAME.jinja`. */
async function readAdditionalTemplates(
  folder: string,
  present: ReadonlySet<string>,
): Promise<Readonly<Record<string, string>> | undefined> {
  if (!present.has(ADDITIONAL_TEMPLATES)) return undefined;
  const files = await additionalTemplates(folder);
  if (files.length === 0) return undefined;
  const templates = files.map(async (path): Promise<[string, string]> => [
    basename(path, '.jinja'),
    await readText(path, HEADER_LIMITS.configJsonBytes),
  ]);
  return Object.fromEntries(await Promise.all(templates));
}

function endTokenIn(config: Readonly<Record<string, unknown>>, deeper = 2): unknown {
  const inner = LANGUAGE_CONFIGS.map((name) => config[name]).find(isObject);
  return config['eos_token_id'] ?? (inner && deeper > 0 ? endTokenIn(inner, deeper - 1) : undefined);
}

/** `eos_token_id`: absent, null, an id or a list of ids, of the model or of the language model inside. */
function endTokensOf(path: string, config: JsonObject): number[] {
  const value = endTokenIn(config) ?? [];
  const fields: Fields = new Fields(path);
  const ids: readonly unknown[] = Array.isArray(value) ? value : [value];
  return ids.map((id) => {
    if (typeof id !== 'number' || !Number.isInteger(id) || id < 0 || id > TOKENIZER_LIMITS.tokenId) {
      fields.refuse(
        'eos_token_id',
        foundInFile(id),
        `a token id or a list of them, from 0 to ${TOKENIZER_LIMITS.tokenId}`,
      );
    }
    return id;
  });
}
