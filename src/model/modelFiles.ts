import { readdir } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { parseSplitName } from './gguf/splitName.js';

/** What decides a row's result besides the weights, in a model's folder. */
export const MODEL_SETTINGS: ReadonlySet<string> = new Set([
  'config.json',
  'generation_config.json',
  'tokenizer.json',
  'tokenizer_config.json',
  'special_tokens_map.json',
  'added_tokens.json',
  'chat_template.jinja',
  'chat_template.json',
]);

/** Weights, their index, and the vocabularies of older tokenizers. */
const OTHERS = /\.(safetensors|safetensors\.index\.json|gguf|bin)$|^(vocab\.json|merges\.txt|tokenizer\.model)$/;

/**
 * The files of the model at a path, for whoever must not overwrite them: of a folder those that make a model, of a
 * split GGUF model all its files. Nothing of them is read; where nothing can be listed, there is the path alone.
 */
export async function modelFiles(path: string): Promise<string[]> {
  const inside = await readdir(path).catch(() => undefined);
  if (inside !== undefined)
    return inside.filter((name) => MODEL_SETTINGS.has(name) || OTHERS.test(name)).map((name) => join(path, name));
  const split = parseSplitName(basename(path));
  if (split === undefined) return [path];
  const beside = await readdir(dirname(path)).catch(() => []);
  const shards = beside.filter((name) => {
    const other = parseSplitName(name);
    return other?.prefix === split.prefix && other.count === split.count;
  });
  return [path, ...shards.filter((name) => name !== basename(path)).map((name) => join(dirname(path), name))];
}
