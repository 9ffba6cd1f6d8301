import { readdir } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { orModelFileError } from './files/ModelFile.js';

/** The files in a model's folder that decide a row's result besides the weights. */
export const MODEL_SETTINGS: ReadonlySet<string> = new Set([
  'config.json',
  'generation_config.json',
  'tokenizer.json',
  'tokenizer_config.json',
  'special_tokens_map.json',
  'added_tokens.json',
  'chat_template.jinja',
  'chat_template.json',
  'modules.json',
  'config_sentence_transformers.json',
  'sentence_bert_config.json',
  'sentence_roberta_config.json',
  'sentence_xlm-roberta_config.json',
  'sentence_distilbert_config.json',
]);

/** Folders of sentence-transformers' modules, each with settings of its own: `1_Pooling`. */
const MODULE = /^\d+_\w+$/;

/** Chat templates that have names: `tool_use.jinja`, say. */
export const ADDITIONAL_TEMPLATES = 'additional_chat_templates';

/** Weights, their index, and the vocabularies of older tokenizers. */
const OTHERS = /\.(safetensors|safetensors\.index\.json|gguf|bin)$|^(vocab\.json|merges\.txt|tokenizer\.model)$/;

/**
 * The files of the model at a path, for whoever must not overwrite them: of a folder those that make a model, of a
 * split GGUF model all its files. Nothing of them is read; where nothing can be listed, there is the path alone.
 */
export async function modelFiles(path: string): Promise<string[]> {
  const inside = await readdir(path).catch(() => undefined);
  if (inside !== undefined) {
    const own = inside.filter((name) => MODEL_SETTINGS.has(name) || OTHERS.test(name)).map((name) => join(path, name));
    return [...own, ...(await additionalTemplates(path).catch(() => []))];
  }
  const split = parseSplitName(basename(path));
  if (split === undefined) return [path];
  const beside = await readdir(dirname(path)).catch(() => []);
  const shards = beside.filter((name) => {
    const other = parseSplitName(name);
    return other?.prefix === split.prefix && other.count === split.count;
  });
  return [path, ...shards.filter((name) => name !== basename(path)).map((name) => join(dirname(path), name))];
}

/** The name of one file of a split model: `name-00002-of-00005.gguf`, as llama.cpp writes it. */
export interface SplitName {
  readonly prefix: string;
  /** From 1. */
  readonly number: number;
  readonly count: number;
}

/** @returns undefined for a file name of another shape */
export function parseSplitName(fileName: string): SplitName | undefined {
  const [, prefix, number, count] = /^(.*)-(\d{5})-of-(\d{5})\.gguf$/s.exec(fileName) ?? [];
  if (prefix === undefined || number === undefined || count === undefined) return undefined;
  return { prefix, number: Number(number), count: Number(count) };
}

export function formatSplitName({ prefix, number, count }: SplitName): string {
  return `${prefix}-${String(number).padStart(5, '0')}-of-${String(count).padStart(5, '0')}.gguf`;
}

/**
 * Lists the files that decide results besides the weights, of a folder's model: its configuration, tokenizer and
 * templates, sorted. A GGUF file holds its own.
 * @param weights the files of the weights
 * @throws ModelFileError when a folder cannot be read
 */
export async function modelSettings(weights: readonly string[]): Promise<string[]> {
  const found: string[] = [];
  for (const folder of new Set(weights.filter((file) => file.endsWith('.safetensors')).map((file) => dirname(file)))) {
    const names = await orModelFileError(folder, () => readdir(folder));
    found.push(...names.filter((name) => MODEL_SETTINGS.has(name)).map((name) => join(folder, name)));
    for (const module of names.filter((name) => MODULE.test(name))) {
      const inside = await readdir(join(folder, module)).catch((): string[] => []);
      if (inside.includes('config.json')) found.push(join(folder, module, 'config.json'));
    }
    if (names.includes(ADDITIONAL_TEMPLATES)) found.push(...(await additionalTemplates(folder)));
  }
  return [...new Set(found)].sort();
}

/** The named chat templates of a model's folder that has any, sorted. @throws ModelFileError */
export async function additionalTemplates(folder: string): Promise<string[]> {
  const own = join(folder, ADDITIONAL_TEMPLATES);
  const inside = await orModelFileError(own, () => readdir(own));
  return inside
    .filter((name) => name.endsWith('.jinja'))
    .sort()
    .map((name) => join(own, name));
}
