import { fstatSync, readdirSync, statSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { InterruptedError } from '../errors/InterruptedError.js';

/** Who holds a lock, as it stands in the lock's file. */
export interface LockHolder {
  readonly pid: number;
  /** Where the pid means anything. */
  readonly machine: string;
  /** When the process started, so that a reused pid is not taken for it. */
  readonly started: string;
  readonly nonce: string;
}

export interface LockTimes {
  /** The holder touches its lock this often, so that others who cannot see its process know that it lives. */
  readonly heartbeatSeconds: number;
  /** A lock that was not touched for so long is looked at more closely. */
  readonly staleSeconds: number;
}

/** So many heartbeats have to fail to come while one waits for them. */
const MISSED_HEARTBEATS = 2.5;

/**
 * Tells whether this process has the lock's file open, as each holder does. A thread's files are closed when it ends,
 * also when it is terminated and can let go of nothing; so a lock of this process that nothing has open is left over.
 */
export function isOpenHere(path: string): boolean {
  try {
    const lock = statSync(path);
    return readdirSync('/dev/fd').some((descriptor) => {
      try {
        const { dev, ino } = fstatSync(Number(descriptor));
        return dev === lock.dev && ino === lock.ino;
      } catch {
        // The folder itself, closed by now.
        return false;
      }
    });
  } catch {
    // Where open files cannot be listed, it may be.
    return true;
  }
}

/**
 * Tells whether the holder of a lock whose process cannot be seen from here has given up touching it. A lock that was
 * touched lately, by the clock, has a holder. One that seems old, or to be of a time to come, may do so because clocks
 * differ or were set: it is watched for some heartbeats.
 * @throws InterruptedError when the signal fires
 */
export async function isStaleLock(
  path: string,
  { heartbeatSeconds, staleSeconds }: LockTimes,
  signal?: AbortSignal,
): Promise<boolean> {
  const touched = touchedAt(path);
  if (touched === undefined || Math.abs(Date.now() - touched) <= staleSeconds * 1000) return touched === undefined;
  for (let beat = 0; beat < MISSED_HEARTBEATS; beat += 0.5) {
    await sleep(heartbeatSeconds * 500, undefined, signal ? { signal } : {}).catch(() => {
      throw new InterruptedError(signal?.reason);
    });
    const now = touchedAt(path);
    if (now !== touched) return now === undefined;
  }
  return true;
}

/** Undefined where the file is gone. */
function touchedAt(path: string): number | undefined {
  return statSync(path, { throwIfNoEntry: false })?.mtimeMs;
}
