import { readdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { orModelFileError } from '../files/ModelFile.js';
import { MODEL_SETTINGS } from '../modelFiles.js';

/**
 * What decides results besides the weights, of a folder's model: its configuration, tokenizer and templates, sorted. A
 * GGUF file holds its own.
 * @param weights the files of the weights
 * @throws ModelFileError when a folder cannot be read
 */
export async function modelSettings(weights: readonly string[]): Promise<string[]> {
  const found: string[] = [];
  for (const folder of new Set(weights.filter((file) => file.endsWith('.safetensors')).map((file) => dirname(file)))) {
    const names = await orModelFileError(folder, () => readdir(folder));
    found.push(...names.filter((name) => MODEL_SETTINGS.has(name)).map((name) => join(folder, name)));
  }
  return found.sort();
}
