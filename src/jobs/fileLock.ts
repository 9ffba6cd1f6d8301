import { randomBytes } from 'node:crypto';
import { closeSync, linkSync, openSync, readFileSync, readlinkSync, readSync, renameSync, statSync, unlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { found } from '../arguments/found.js';
import { UsageError } from '../errors/UsageError.js';
import { fileErrorCode, fileFailure } from './fileErrors.js';

/** The holder touches its lock this often, so that others who cannot see its process know that it lives. */
const HEARTBEAT_SECONDS = 10;
/** A lock of a process that cannot be seen from here is stale after this. */
const STALE_SECONDS = 60;
/** A lock is shorter than this. */
const MOST_LOCK_BYTES = 4096;

interface LockHolder {
  readonly pid: number;
  /** Where the pid means anything: the kernel's boot and the pid namespace, or the host. */
  readonly machine: string;
  /** When the process started, in the kernel's ticks, so that a reused pid is not taken for it. */
  readonly started: string;
  readonly nonce: string;
}

/** An exclusive lock, held until it is released or its process ends. */
export interface FileLock {
  release(): void;
}

/**
 * Locks by creating `path` exclusively. The lock of a process that has ended is taken over; a file that is no lock of ours is left alone.
 * @param what what is locked, for the message
 * @throws UsageError when another process holds it, or the file is somebody else's; JobFileError when it cannot be made or read
 */
export function acquireFileLock(path: string, what: string): FileLock {
  const self: LockHolder = { pid: process.pid, machine: machineName(), started: startOf(process.pid) ?? '', nonce: randomBytes(8).toString('hex') };
  for (let attempt = 0; attempt < 5; attempt += 1) {
    try {
      createWhole(path, JSON.stringify(self), self.nonce);
      return heldLock(path, self);
    } catch (error) {
      if (fileErrorCode(error) !== 'EEXIST') {
        throw fileFailure(path, 'made', error);
      }
    }
    const content = readLock(path);
    if (content === undefined) continue;
    const holder = parseHolder(content);
    if (holder === undefined) {
      throw new UsageError(`${path}: found ${found(content)}, expected no file or the lock of a Spillway job, as the one of ${what} goes there; remove the file if nothing needs it, or give another output`);
    }
    if (!isStale(path, holder)) {
      throw new UsageError(
        `${what} is in use by process ${holder.pid}; wait for it to end (if it ran on another machine or in another container and was killed, ` +
          `the lock ${path} lapses ${STALE_SECONDS} seconds after)`,
      );
    }
    removeStale(path, content);
  }
  throw new UsageError(`${what} is in use: other processes keep taking ${path}`);
}

/** Creates a file that nobody finds without its content, even if this process is killed meanwhile. @throws the system's error, EEXIST if the file is there */
function createWhole(path: string, content: string, nonce: string): void {
  const made = `${path}.${process.pid}-${nonce}`;
  writeFileSync(made, content, { flag: 'wx' });
  try {
    linkSync(made, path);
  } catch (error) {
    if (fileErrorCode(error) === 'EEXIST') throw error;
    // A file system without links.
    writeFileSync(path, content, { flag: 'wx' });
  } finally {
    unlinkSync(made);
  }
}

function heldLock(path: string, self: LockHolder): FileLock {
  const heartbeat = setInterval(() => {
    try {
      const now = new Date();
      utimesSync(path, now, now);
    } catch {
      // The lock file is gone; whoever removed it takes the risk, and the run's own output is still consistent.
    }
  }, HEARTBEAT_SECONDS * 1000);
  heartbeat.unref();
  return {
    release(): void {
      clearInterval(heartbeat);
      const content = readIfThere(path);
      if (content !== undefined && parseHolder(content)?.nonce === self.nonce) unlinkSync(path);
    },
  };
}

function isStale(path: string, holder: LockHolder): boolean {
  if (holder.machine === machineName()) {
    const started = startOf(holder.pid);
    return !isAlive(holder.pid) || (started !== undefined && holder.started !== '' && started !== holder.started);
  }
  try {
    return Date.now() - statSync(path).mtimeMs > STALE_SECONDS * 1000;
  } catch {
    return true;
  }
}

/** Two processes may find the same stale lock. Moving it aside is atomic, and whoever moved a fresh one by mistake puts it back. */
function removeStale(path: string, content: string): void {
  const aside = `${path}.${process.pid}-${randomBytes(4).toString('hex')}`;
  try {
    renameSync(path, aside);
  } catch {
    return;
  }
  if (readIfThere(aside) !== content) {
    try {
      linkSync(aside, path);
    } catch {
      // A third process has locked meanwhile; the one whose lock was moved finds another nonce there and leaves it alone.
    }
  }
  unlinkSync(aside);
}

function parseHolder(content: string): LockHolder | undefined {
  try {
    const value = JSON.parse(content) as Partial<LockHolder> | null;
    return typeof value?.pid === 'number' && Number.isSafeInteger(value.pid) && value.pid > 0 && typeof value.machine === 'string'
      ? { pid: value.pid, machine: value.machine, started: value.started ?? '', nonce: value.nonce ?? '' }
      : undefined;
  } catch {
    return undefined;
  }
}

/** The beginning of what stands at `path`; it may be any file. Undefined if there is none. @throws JobFileError */
function readLock(path: string): string | undefined {
  try {
    const file = openSync(path, 'r');
    try {
      const buffer = Buffer.alloc(MOST_LOCK_BYTES);
      return buffer.toString('utf8', 0, readSync(file, buffer));
    } finally {
      closeSync(file);
    }
  } catch (error) {
    if (fileErrorCode(error) === 'ENOENT') return undefined;
    throw fileFailure(path, 'read', error);
  }
}

function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return fileErrorCode(error) !== 'ESRCH';
  }
}

function machineName(): string {
  try {
    return `${readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()} ${readlinkSync('/proc/self/ns/pid')}`;
  } catch {
    return hostname();
  }
}

/** Field 22 of /proc/PID/stat, counted from behind the process's name, which may hold blanks and brackets. */
function startOf(pid: number): string | undefined {
  const stat = readIfThere(`/proc/${pid}/stat`);
  return stat?.slice(stat.lastIndexOf(')') + 2).split(' ')[19];
}
