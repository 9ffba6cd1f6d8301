import { readdir, stat } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { found } from '../../arguments/found.js';
import { ModelFileError } from '../../errors/ModelFileError.js';
import { UsageError } from '../../errors/UsageError.js';
import { chooseFiles, type ListedFile } from '../hub/chooseFiles.js';
import { isSafePath } from '../hub/hubName.js';

export const LM_STUDIO = 'lmstudio:';
const MOST_FILES = 10_000;

/** Where LM Studio keeps models, now and before. */
function foldersOf(environment: Readonly<Record<string, string | undefined>>): string[] {
  const chosen = environment['LMSTUDIO_MODELS'];
  return chosen !== undefined && chosen !== ''
    ? [chosen]
    : [join(homedir(), '.lmstudio', 'models'), join(homedir(), '.cache', 'lm-studio', 'models')];
}

/**
 * A model that LM Studio has fetched, `lmstudio:publisher/name[:file-or-quant]`. Nothing is fetched.
 * @throws UsageError for a name of another shape; ModelFileError where there is no such model
 */
export async function lmStudioModel(
  name: string,
  environment: Readonly<Record<string, string | undefined>> = process.env,
): Promise<string> {
  const [, model = '', wanted] = /^lmstudio:([^:]+)(?::(.+))?$/s.exec(name) ?? [];
  if (!isSafePath(model) || model.split('/').length !== 2 || (wanted !== undefined && !isSafePath(wanted))) {
    throw new UsageError(
      `model: found ${found(name)}, expected lmstudio:PUBLISHER/NAME or lmstudio:PUBLISHER/NAME:Q4_K_M`,
    );
  }
  const folders = foldersOf(environment);
  for (const folder of folders) {
    const root = join(folder, model);
    const names = await readdir(root, { recursive: true }).catch(() => undefined);
    if (names === undefined) continue;
    const files: ListedFile[] = [];
    for (const path of names.slice(0, MOST_FILES)) {
      const facts = await stat(join(root, path)).catch(() => undefined);
      if (facts?.isFile() === true) files.push({ path, bytes: facts.size });
    }
    const chosen = chooseFiles(files, wanted);
    if (!('files' in chosen)) throw new ModelFileError(name, 'folder', chosen.found, chosen.expected);
    return join(root, chosen.entry ?? '');
  }
  throw new ModelFileError(
    name,
    'model',
    `no ${model} in ${folders.join(' or ')}`,
    'one that LM Studio has fetched; LMSTUDIO_MODELS names another folder',
  );
}
