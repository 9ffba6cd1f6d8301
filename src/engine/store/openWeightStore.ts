import { createHash } from 'node:crypto';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Addon } from '../../bindings/Addon.js';
import { isNativeError, nativeCall } from '../../bindings/nativeCall.js';
import type { StoreFacts } from '../../bindings/Store.js';
import { stoppable } from '../../bindings/stoppable.js';
import { InterruptedError } from '../../errors/InterruptedError.js';
import { ModelFileError } from '../../errors/ModelFileError.js';
import type { ModelIdentity } from '../../model/identity/identifyModel.js';
import type { ModelSource } from '../../model/ModelSource.js';
import { noteStore } from './repackedStores.js';
import { lockHolder, type StoreHolder } from './storeHolder.js';
import { discardStore, withStoreRemedy } from './storeRemedy.js';
import { makeFolder } from '../../files/makeFolder.js';

/** A model in the kernels' own layout, on disk, from where its layers can stream. */
export interface WeightStore extends StoreFacts {
  readonly path: string;
  readonly fingerprint: string;
}

export interface RepackingOptions {
  /** Is made if need be; the file keeps lying there. */
  readonly folder: string;
  readonly threads: number;
  readonly signal?: AbortSignal | undefined;
  /** Gets bytes of weights done, of all. */
  readonly onProgress?: (bytes: number) => void;
  /** Called when another process has to be waited for, and when that is another one. */
  readonly onWait?: ((holder: StoreHolder) => void) | undefined;
}

/** Another process that repacks the same model is looked at this often. */
const LOOK_MS = 250;

/**
 * Finds the repacked file of a model in a folder, or makes it: once for a model, whatever the runs. A conversion that
 * was killed or interrupted goes on, one that another process is at is waited for, and taken up if that process ends; a
 * file whose header or size shows that it is damaged is made anew.
 *
 * @param identity of the source's files: what is in them, wherever they lie, is what the store belongs to
 * @throws ModelFileError if the folder or the file cannot be written or read, or a file of the model has changed since
 * it was identified; InterruptedError when the signal fires
 */
export async function openWeightStore(
  addon: Addon,
  source: ModelSource,
  identity: ModelIdentity,
  options: RepackingOptions,
): Promise<WeightStore> {
  const { folder, threads, signal, onProgress } = options;
  const { decoder, bindings, files } = source;
  const { name, fingerprint } = nameOf(source, identity);
  const path = join(folder, name);
  makeStoreFolder(folder);
  const stamps = identity.weights.map(({ stamp }) => stamp);
  const making = { decoder, bindings, files, stamps, store: path, fingerprint, threads };
  const find = (): StoreFacts | undefined => inspect(addon, path, fingerprint);
  const make = (): Promise<void> => stoppable(signal, onProgress, (progress) => addon.repack(making, progress));
  const facts = find() ?? (await firstMade(path, options, find, make));
  if (!facts) throw new ModelFileError(path, 'repacked model', 'another model', 'the one that was just written');
  await noteStore(path, files[0] ?? '');
  return { ...facts, path, fingerprint };
}

/** Bytes of a model's store that a folder has already, also of one that is not complete. */
export async function repackedBytes(folder: string, source: ModelSource, identity: ModelIdentity): Promise<number> {
  const path = join(folder, nameOf(source, identity).name);
  const sizes = [path, `${path}.partial`].map((each) =>
    stat(each).then(
      ({ size }) => size,
      () => 0,
    ),
  );
  return Math.max(...(await Promise.all(sizes)));
}

/**
 * Tells whether a file's name may be that of a model's store, also of one that is not complete: for whoever would
 * rather not hash the model's files to know. Pure.
 */
export function isStoreName(name: string, source: Pick<ModelSource, 'decoder' | 'bindings'>): boolean {
  return name.replace(/\.partial$/, '').endsWith(suffixOf(meaningOf(source)));
}

/** Makes a store, or waits until whoever is at it has made it, or has ended without. */
async function firstMade(
  path: string,
  { signal, onWait }: RepackingOptions,
  find: () => StoreFacts | undefined,
  make: () => Promise<void>,
): Promise<StoreFacts | undefined> {
  for (let holder: StoreHolder | undefined; ;) {
    try {
      await make();
      return find();
    } catch (error) {
      if (!isNativeError(error, 'busy')) throw error;
    }
    const pid = await lockHolder(`${path}.partial`);
    if (!holder || (pid !== undefined && pid !== holder.pid)) onWait?.((holder = { path, pid }));
    await sleep(LOOK_MS, undefined, { signal }).catch(() => {
      throw new InterruptedError(signal?.reason);
    });
    const facts = find();
    if (facts) return facts;
  }
}

/** @returns undefined where there is no store of this model, or none any more: a damaged one is removed */
function inspect(addon: Addon, path: string, fingerprint: string): StoreFacts | undefined {
  try {
    return nativeCall(() => addon.inspectStore(path, fingerprint));
  } catch (error) {
    if (error instanceof ModelFileError && discardStore(path)) return undefined;
    throw withStoreRemedy(error, path);
  }
}

function makeStoreFolder(folder: string): void {
  try {
    makeFolder(folder);
  } catch (error) {
    const { code = '', message } = error as NodeJS.ErrnoException;
    const found = { EEXIST: 'a file', ENOTDIR: 'a file on the way to it' }[code] ?? message;
    throw new ModelFileError(
      folder,
      'folder for repacked models (disk)',
      found,
      'a folder that exists or can be made, and be written to',
      { cause: error },
    );
  }
}

/**
 * Makes a name of the contents of the model's files and of what they are taken to mean: no two models share a name, and
 * one has the same wherever it lies.
 * @returns with the fingerprint, of which the file's name holds less
 */
function nameOf(
  source: Pick<ModelSource, 'decoder' | 'bindings'>,
  { weights }: ModelIdentity,
): { name: string; fingerprint: string } {
  const contents = hashed(weights.map(({ hash }) => hash).join('\n'));
  const meaning = meaningOf(source);
  return { name: `${contents.slice(0, 24)}${suffixOf(meaning)}`, fingerprint: `${contents} ${meaning}` };
}

function meaningOf({ decoder, bindings }: Pick<ModelSource, 'decoder' | 'bindings'>): string {
  const plain = (_: string, value: unknown): unknown => (value instanceof Float32Array ? [...value] : value);
  return hashed(JSON.stringify({ decoder, bindings }, plain));
}

function suffixOf(meaning: string): string {
  return `-${meaning.slice(0, 16)}.weights`;
}

function hashed(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
