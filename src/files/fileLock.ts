import { randomBytes } from 'node:crypto';
import {
  closeSync,
  futimesSync,
  linkSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  unlinkSync,
  writeSync,
} from 'node:fs';
import { found } from '../arguments/found.js';
import { UsageError } from '../errors/UsageError.js';
import { isRunning, machineName, startOf } from './processes.js';
import { removeLeftovers, temporaryPath } from './temporaryFiles.js';
import { fileErrorCode, fileFailure } from './fileErrors.js';
import { isStaleLock, isOpenHere, type LockHolder, type LockTimes } from './LockHolder.js';
import { readRegularStart } from './specialFiles.js';

const TIMES: LockTimes = { heartbeatSeconds: 10, staleSeconds: 60 };
/** A lock is shorter than this. */
const MOST_LOCK_BYTES = 4096;

/** An exclusive lock, held until it is released, or its process or thread ends. */
export interface FileLock {
  release(): void;
}

/**
 * Locks by creating `path` exclusively. The lock of a process or thread that has ended is taken over; a file that is no
 * lock of ours is left alone.
 * @param what what is locked, for the message
 * @param signal ends waiting for whoever cannot be seen from here, if it comes to that
 * @throws UsageError when another one holds it, or the file is somebody else's; JobFileError when it cannot be made or
 * read; InterruptedError
 */
export async function acquireFileLock(
  path: string,
  what: string,
  { signal, ...times }: { readonly signal?: AbortSignal | undefined } & Partial<LockTimes> = {},
): Promise<FileLock> {
  const lockTimes: LockTimes = { ...TIMES, ...times };
  const self: LockHolder = {
    pid: process.pid,
    machine: machineName(),
    started: startOf(process.pid) ?? '',
    nonce: randomBytes(8).toString('hex'),
  };
  removeLeftovers(path);
  for (let attempt = 0; attempt < 5; attempt += 1) {
    try {
      const file = createWhole(path, JSON.stringify(self));
      return heldLock(path, file, self, lockTimes.heartbeatSeconds);
    } catch (error) {
      if (fileErrorCode(error) !== 'EEXIST') {
        throw fileFailure(path, 'made', error);
      }
    }
    const content = readRegularStart(path, MOST_LOCK_BYTES, 'the lock of a Spillway job');
    if (content === undefined) continue;
    const holder = parseHolder(content);
    if (holder === undefined) {
      throw new UsageError(
        `${path}: found ${found(content)}, expected no file or the lock of a Spillway job, as the one of ${what} goes there; remove the file if nothing needs it, or give another output`,
      );
    }
    if (!(await isStale(path, holder, lockTimes, signal))) {
      throw new UsageError(
        `${what} is in use by process ${holder.pid}; wait for it to end (if it ran on another machine or in another container and was killed, ` +
          `the lock ${path} lapses ${lockTimes.staleSeconds} seconds after)`,
      );
    }
    removeStale(path, content);
  }
  throw new UsageError(`${what} is in use: other processes keep taking ${path}`);
}

/**
 * Creates a file that nobody finds without its content, or not open, even if this process is killed meanwhile.
 * @returns its descriptor
 * @throws the system's error, EEXIST if the file is there
 */
function createWhole(path: string, content: string): number {
  const made = temporaryPath(path);
  const file = createOpen(made, content);
  try {
    linkSync(made, path);
    return file;
  } catch (error) {
    closeSync(file);
    if (fileErrorCode(error) === 'EEXIST') throw error;
    // A file system without links.
    return createOpen(path, content);
  } finally {
    rmSync(made, { force: true });
  }
}

function createOpen(path: string, content: string): number {
  const file = openSync(path, 'wx');
  try {
    writeSync(file, content);
    return file;
  } catch (error) {
    closeSync(file);
    unlinkSync(path);
    throw error;
  }
}

/** @param file open as long as the lock is held: see isOpenHere */
function heldLock(path: string, file: number, self: LockHolder, heartbeatSeconds: number): FileLock {
  const heartbeat = setInterval(() => {
    try {
      const now = new Date();
      futimesSync(file, now, now);
    } catch {
      // A file system that has lost it; the run's own output is still consistent.
    }
  }, heartbeatSeconds * 1000);
  heartbeat.unref();
  let held = true;
  return {
    release(): void {
      if (!held) return;
      held = false;
      clearInterval(heartbeat);
      closeSync(file);
      const content = readIfThere(path);
      if (content === undefined || parseHolder(content)?.nonce !== self.nonce) return;
      try {
        unlinkSync(path);
      } catch (error) {
        if (fileErrorCode(error) !== 'ENOENT') throw fileFailure(path, 'removed', error);
      }
    },
  };
}

/** Lets go of all of them, also after one that cannot be removed. @throws JobFileError of the first such */
export function releaseLocks(locks: readonly FileLock[]): void {
  const failures: unknown[] = [];
  for (const lock of locks) {
    try {
      lock.release();
    } catch (error) {
      failures.push(error);
    }
  }
  if (failures.length > 0) throw failures[0];
}

async function isStale(
  path: string,
  holder: LockHolder,
  times: LockTimes,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  if (holder.machine !== machineName()) return isStaleLock(path, times, signal);
  const started = startOf(holder.pid);
  if (!isRunning(holder.pid) || (started !== undefined && holder.started !== '' && started !== holder.started))
    return true;
  return holder.pid === process.pid && !isOpenHere(path);
}

/**
 * Two processes may find the same stale lock. Moving it aside is atomic, and whoever moved a fresh one by mistake puts
 * it back.
 */
function removeStale(path: string, content: string): void {
  const aside = temporaryPath(path);
  try {
    renameSync(path, aside);
  } catch {
    return;
  }
  if (readIfThere(aside) !== content) {
    try {
      linkSync(aside, path);
    } catch {
      // A third process has locked meanwhile; the one whose lock was moved finds another nonce there and leaves it
      // alone.
    }
  }
  unlinkSync(aside);
}

function parseHolder(content: string): LockHolder | undefined {
  try {
    const value = JSON.parse(content) as Partial<LockHolder> | null;
    return typeof value?.pid === 'number' &&
      Number.isSafeInteger(value.pid) &&
      value.pid > 0 &&
      typeof value.machine === 'string'
      ? { pid: value.pid, machine: value.machine, started: value.started ?? '', nonce: value.nonce ?? '' }
      : undefined;
  } catch {
    return undefined;
  }
}

function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}
