import { stat } from 'node:fs/promises';
import { checkMembers, type Check } from '../arguments/checkMembers.js';
import { checkBoolean, checkFunction, checkSignal, checkText } from '../arguments/checks.js';
import { found } from '../arguments/found.js';
import { text } from '../arguments/memberChecks.js';
import { ModelFileError } from '../errors/ModelFileError.js';
import { UsageError } from '../errors/UsageError.js';
import { knownModel, knownModels } from './pull/knownModels.js';
import { pullModel, type PullOptions } from './pull/pullModel.js';

export { knownModels } from './pull/knownModels.js';

/** Text that can only be meant as a path. */
const LOOKS_LIKE_PATH = /[\\/]|^\.\.?$|\.(gguf|safetensors|json)$/i;

const CHECKS: Readonly<Record<keyof PullOptions, Check>> = {
  signal: checkSignal,
  onProgress: checkFunction,
  verify: checkBoolean,
  folder: text('the path of a folder'),
  sources: (name, value) => {
    if (!Array.isArray(value)) throw new UsageError(`${name}: found ${found(value)}, expected an array of sources`);
  },
};

/**
 * Turns what a user wrote for a model into a path: an id that `pull` knows is fetched if need be, a path is left alone.
 * A known id means the model even where a file of that name exists; write `./NAME` for the file.
 *
 * @returns the path of a file or folder; for paths, whether anything is there is left to the reader to find out
 * @throws UsageError for what is no text, and for an option that is unknown or of the wrong type
 * @throws ModelFileError for a bare word that is neither a known id nor something on disk; DownloadError, InterruptedError
 */
export async function resolveModel(idOrPath: string, options: PullOptions = {}): Promise<string> {
  checkText('model', idOrPath, 'a path or a known id');
  checkMembers('options', options, CHECKS);
  const known = knownModel(idOrPath);
  if (known !== undefined) return pullModel(known, options);
  if (LOOKS_LIKE_PATH.test(idOrPath) || (await exists(idOrPath))) return idOrPath;
  const ids = knownModels.map(({ id }) => id).join(', ');
  throw new ModelFileError(idOrPath, 'model', 'neither a file nor a folder nor a known id', `a GGUF file, a folder with config.json, or one of: ${ids}`);
}

function exists(path: string): Promise<boolean> {
  return stat(path).then(() => true, () => false);
}
