import { statfs } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { ModelFileError } from '../../errors/ModelFileError.js';
import { ModelFile } from '../files/ModelFile.js';
import { stampOf, type FileStamp } from './FileStamp.js';
import { hashContent } from './hashContent.js';

/**
 * Two changes within so many milliseconds may leave the same times behind, on file systems that count in nanoseconds (by the kernel's
 * tick), and in seconds.
 */
const TICK = 50;
const COARSE_TICK = 2_100;
/** A file that is still being written after so many looks is not waited for. */
const MOST_LOOKS = 4;

/** File systems (`statfs`, Linux) that are not known to keep a time of change which no program can set: FAT, exFAT, FUSE, SMB, 9P. */
const UNSURE = new Set([0x4d44, 0x2011bab0, 0x65735546, 0x517b, 0xff534d42, 0xfe534d42, 0x01021997]);

/** A file's hash, and the stamp that it had all the while. */
export interface HashedFile {
  readonly stamp: FileStamp;
  readonly hash: string;
  /**
   * How long the stamp stands for the hash: where any later change gives the file another one `always`; `now` for this process's sake;
   * where it may not at all, `not`.
   */
  readonly holds: 'always' | 'now' | 'not';
}

/**
 * Hashes a file as a whole.
 * @param onBytes see `hashContent`
 * @throws ModelFileError where it cannot be read, or is written meanwhile
 */
export async function hashFile(path: string, onBytes: (bytes: number) => void): Promise<HashedFile> {
  const { stamp, settled } = await settledStamp(path);
  const hash = await ModelFile.use(path, (file) => hashContent(file, onBytes));
  if ((await stampOf(path)).text !== stamp.text) throw changing(path);
  return { stamp, hash, holds: !settled ? 'not' : (await keepsChangeTimes(path)) ? 'always' : 'now' };
}

/** Waits, for moments, until a change would show. A time that lies in the future says nothing. */
async function settledStamp(path: string): Promise<{ stamp: FileStamp; settled: boolean }> {
  for (let look = 0; look < MOST_LOOKS; look += 1) {
    const stamp = await stampOf(path);
    const tick = stamp.changed % 1_000_000_000n === 0n ? COARSE_TICK : TICK;
    const age = Date.now() - Number(stamp.changed / 1_000_000n);
    if (age > tick || age < -tick) return { stamp, settled: age > tick };
    await sleep(tick - age + 1);
  }
  throw changing(path);
}

async function keepsChangeTimes(path: string): Promise<boolean> {
  return statfs(path).then(({ type }) => !UNSURE.has(type), () => false);
}

function changing(path: string): ModelFileError {
  return new ModelFileError(path, 'file', 'contents that change while they are read', 'a file that nobody writes to; run again once it is complete');
}
