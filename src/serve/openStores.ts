import { join } from 'node:path';
import { fileFailure } from '../files/fileErrors.js';
import { acquireFileLock } from '../files/fileLock.js';
import { makeFolder } from '../files/makeFolder.js';
import { BatchStore } from './batches/BatchStore.js';
import { FileStore } from './files/FileStore.js';
import type { ServeLimits } from './ServeOptions.js';

/** The name has stayed since servers alone had batches, so that those of older versions are seen. */
const LOCK = 'spillway-serve.lock';

/** The parts of opening stores that their user decides. */
export interface StoreOptions {
  readonly limits: ServeLimits;
  readonly signal?: AbortSignal | undefined;
  /** Told of what is no batch, and left alone. */
  readonly say?: (message: string) => void;
}

/** The files and the batches of a folder, for as long as they are held. */
export interface Stores {
  readonly files: FileStore;
  readonly batches: BatchStore;
  readonly release: () => void;
}

/**
 * Opens the files and the batches of a folder, made if need be, which one user has at a time.
 * @throws UsageError where another one has it; JobFileError; InterruptedError
 */
export async function openStores(
  folder: string,
  { limits, signal, say = () => undefined }: StoreOptions,
): Promise<Stores> {
  try {
    makeFolder(folder);
  } catch (error) {
    throw fileFailure(folder, 'made', error);
  }
  const lock = await acquireFileLock(join(folder, LOCK), folder, { signal });
  try {
    const files = await FileStore.open(join(folder, 'files'), limits);
    const batches = await BatchStore.open(join(folder, 'batches'), say);
    return { files, batches, release: () => lock.release() };
  } catch (error) {
    lock.release();
    throw error;
  }
}
