import { setTimeout as sleep } from 'node:timers/promises';
import { InterruptedError } from '../errors/InterruptedError.js';
import { UsageError } from '../errors/UsageError.js';
import { acquireFileLock, type FileLock } from '../files/fileLock.js';

/** How often somebody else's lock is tried: it is held for milliseconds. */
const POLL_MILLISECONDS = 20;

/**
 * Does something while no other process makes or renames the files of a store. Nobody needs the lock to append, or to
 * read.
 * @param patienceMilliseconds how long somebody else's lock is waited for. 0: not at all
 * @returns why it was not done: another one goes on holding the lock. Undefined when it was done
 * @throws JobFileError when the lock cannot be made; InterruptedError; what `body` throws
 */
export async function withStoreLock(
  path: string,
  patienceMilliseconds: number,
  signal: AbortSignal | undefined,
  body: () => Promise<void>,
): Promise<UsageError | undefined> {
  const lock = await acquire(path, performance.now() + patienceMilliseconds, signal);
  if (lock instanceof UsageError) return lock;
  try {
    await body();
  } finally {
    lock.release();
  }
  return undefined;
}

async function acquire(path: string, until: number, signal: AbortSignal | undefined): Promise<FileLock | UsageError> {
  for (;;) {
    if (signal?.aborted) throw new InterruptedError(signal.reason);
    try {
      return await acquireFileLock(`${path}.lock`, path, { signal });
    } catch (error) {
      if (!(error instanceof UsageError)) throw error;
      if (performance.now() >= until) return error;
    }
    await sleep(POLL_MILLISECONDS);
  }
}
