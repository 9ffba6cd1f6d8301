import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { membersOf } from '../../arguments/isObject.js';
import { HEADER_LIMITS } from '../files/limits.js';
import { orModelFileError } from '../files/ModelFile.js';
import { readJsonObject } from '../files/readJson.js';
import { printable } from '../files/printable.js';
import type { ModelSource } from '../ModelSource.js';

/** Where sentence-transformers puts how a model's embeddings are pooled. */
const FOLDER = '1_Pooling';
const MODES: Readonly<Record<string, 'last' | 'mean' | 'cls'>> = {
  pooling_mode_lasttoken: 'last',
  pooling_mode_mean_tokens: 'mean',
  pooling_mode_cls_token: 'cls',
};
/** Modules behind the pooling that change its result: those that are numbered, but for what only normalises. */
const CHANGES = /^\d+_(?!Pooling$|Normalize$)/;

/**
 * What a folder says of pooling, as sentence-transformers writes it.
 * @param present names of what is in the folder
 * @returns undefined for a folder that says nothing
 * @throws ModelFileError for a file that cannot be read
 */
export async function readPooling(folder: string, present: ReadonlySet<string>): Promise<ModelSource['pooling']> {
  if (!present.has(FOLDER)) return undefined;
  const inside = await orModelFileError(folder, () => readdir(join(folder, FOLDER)));
  if (!inside.includes('config.json')) return undefined;
  const other = [...present].find((name) => CHANGES.test(name));
  if (other !== undefined) return { unknown: `a module ${printable(other)} behind the pooling` };
  const config = membersOf(await readJsonObject(join(folder, FOLDER, 'config.json'), HEADER_LIMITS.configJsonBytes));
  const chosen = Object.keys(config).filter((key) => key.startsWith('pooling_mode_') && config[key] === true);
  const [only = ''] = chosen;
  const mode = chosen.length === 1 && Object.hasOwn(MODES, only) ? MODES[only] : undefined;
  return mode ?? { unknown: chosen.length === 0 ? 'no pooling_mode' : printable(chosen.join(' and ')) };
}
