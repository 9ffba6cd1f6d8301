import { lstat, readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { UsageError } from '../errors/UsageError.js';
import { didYouMean } from '../arguments/nearest.js';
import { found } from '../arguments/found.js';
import { hubCacheFolder } from './hub/hubSettings.js';
import { userCacheFolder } from '../files/userFolders.js';
import { knownModels } from './pull/knownModels.js';

/** A model that was fetched and lies in a cache. */
export interface CachedModel {
  /** Name to fetch it by. */
  readonly name: string;
  /** On disk; what is there of a download that is not over counts. */
  readonly bytes: number;
  readonly path: string;
}

const REPOSITORY = /^models--([^-].*?)--(.+)$/;

/** The models that `pull` has fetched, and those of the cache that Hugging Face's tools share. */
export async function cachedModels(): Promise<CachedModel[]> {
  const own = await Promise.all(
    knownModels.map(async ({ id, fileName }) => {
      const path = join(userCacheFolder(), 'models', fileName);
      return { name: id, path, bytes: await fileBytes(path) };
    }),
  );
  const cache = hubCacheFolder();
  const folders = (await readdir(cache).catch(() => [])).flatMap((folder) => {
    const [, owner, name] = REPOSITORY.exec(folder) ?? [];
    return owner === undefined || name === undefined
      ? []
      : [{ name: `hf:${owner}/${name}`, path: join(cache, folder) }];
  });
  const shared = await Promise.all(folders.map(async (model) => ({ ...model, bytes: await folderBytes(model.path) })));
  return [...own.filter(({ bytes }) => bytes > 0), ...shared];
}

/**
 * Removes a model from its cache, with all of its revisions.
 * @returns what was removed
 * @throws UsageError for a name that no model there has; the file system's errors
 */
export async function removeCachedModel(name: string): Promise<CachedModel> {
  const models = await cachedModels();
  const names = models.map((model) => model.name);
  const model = models.find((each) => each.name.toLowerCase() === name.toLowerCase());
  if (model === undefined)
    throw new UsageError(
      `remove: found ${found(name)}, expected a model of the cache: ${names.join(', ') || 'there is none'}${didYouMean(name, names)}`,
    );
  await rm(model.path, { recursive: true, force: true });
  return model;
}

async function fileBytes(path: string): Promise<number> {
  return stat(path).then(
    (facts) => (facts.isFile() ? facts.size : 0),
    () => 0,
  );
}

/** Links count for nothing: the blobs are there, too. */
async function folderBytes(folder: string): Promise<number> {
  const names = await readdir(folder, { recursive: true }).catch(() => []);
  const sizes = await Promise.all(
    names.map((name) =>
      lstat(join(folder, name)).then(
        (facts) => (facts.isFile() ? facts.size : 0),
        () => 0,
      ),
    ),
  );
  return sizes.reduce((sum, bytes) => sum + bytes, 0);
}
