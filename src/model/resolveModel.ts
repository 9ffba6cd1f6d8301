import { stat } from 'node:fs/promises';
import { checkMembers, type Check } from '../arguments/checkMembers.js';
import { checkBoolean, checkFunction, checkSignal, checkText } from '../arguments/checks.js';
import { found } from '../arguments/found.js';
import { didYouMean } from '../arguments/nearest.js';
import { text } from '../arguments/memberChecks.js';
import { ModelFileError } from '../errors/ModelFileError.js';
import { UsageError } from '../errors/UsageError.js';
import { isHubName } from './hub/hubName.js';
import { pullHub } from './hub/pullHub.js';
import { LM_STUDIO, lmStudioModel } from './local/lmStudioModel.js';
import { OLLAMA, ollamaModel } from './local/ollamaModel.js';
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
 * Turns what a user wrote for a model into a path: an id that `pull` knows, or
 * `hf:owner/repo[@revision][:file-or-quant]` of the Hugging Face hub, is fetched if need be; `ollama:name[:tag]` and
 * `lmstudio:publisher/name[:file-or-quant]` are found where those tools keep them; a path is left alone. Such a name
 * means the model even where a file of that name exists; write `./NAME` for the file. Of the options a name of the hub
 * takes `signal`, `onProgress` and `verify`, which asks the hub what the revision is now; otherwise what is in the
 * cache is used as it is.
 *
 * @returns the path of a file or folder; for paths, whether anything is there is left to the reader to find out
 * @throws UsageError for what is no text, and for an option that is unknown or of the wrong type
 * @throws ModelFileError for a bare word that is neither a known id nor something on disk; DownloadError,
 * InterruptedError
 */
export async function resolveModel(idOrPath: string, options: PullOptions = {}): Promise<string> {
  checkText('model', idOrPath, 'a path or a known id');
  checkMembers('options', options, CHECKS);
  const known = knownModel(idOrPath);
  if (known !== undefined) return pullModel(known, options);
  if (isHubName(idOrPath)) return pullHub(idOrPath, options);
  if (idOrPath.startsWith(OLLAMA)) return ollamaModel(idOrPath);
  if (idOrPath.startsWith(LM_STUDIO)) return lmStudioModel(idOrPath);
  if (LOOKS_LIKE_PATH.test(idOrPath) || (await exists(idOrPath))) return idOrPath;
  const ids = knownModels.map(({ id }) => id);
  throw new ModelFileError(
    idOrPath,
    'model',
    'neither a file nor a folder nor a known id',
    `a GGUF file, a folder with config.json, hf:OWNER/REPO, or one of: ${ids.join(', ')}${didYouMean(idOrPath, ids)}`,
  );
}

/** Tells whether a text names a model that is found, or fetched, rather than a path. */
export function isModelName(text: string): boolean {
  return knownModel(text) !== undefined || isHubName(text) || text.startsWith(OLLAMA) || text.startsWith(LM_STUDIO);
}

function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}
