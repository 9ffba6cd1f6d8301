import { readFile, realpath } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { ModelFileError } from '../../errors/ModelFileError.js';
import { ModelFile } from '../files/ModelFile.js';
import { type FileStamp, stampOf } from './FileStamp.js';
import { hashContent } from './hashContent.js';

/**
 * Two changes within so many milliseconds may leave the same times, on file systems that count in nanoseconds
 * (by the kernel's tick), and in seconds.
 */
const TICK = 50;
const COARSE_TICK = 2_100;
/** A file that is still being written after so many looks is not waited for. */
const MOST_LOOKS = 4;

/**
 * File systems that keep a time of change which no program can set. Others may not (FAT, FUSE, SMB), or have it from
 * whoever made their image (squashfs, erofs, ISO 9660), which may be what an overlay shows.
 */
const KEEPING = new Set(['ext2', 'ext3', 'ext4', 'xfs', 'btrfs', 'f2fs', 'zfs', 'bcachefs', 'tmpfs']);
/** Their servers keep it. */
const SERVED = new Set(['nfs', 'nfs4']);

/** A file's hash, and the stamp that it had all the while. */
export interface HashedFile {
  readonly stamp: FileStamp;
  readonly hash: string;
  /**
   * How long the stamp stands for the hash: where any later change gives the file another one `always`; `now` for this
   * process's sake; where it may not at all, `not`.
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
  // Where there is no such file, as on macOS, nothing is known of mounts.
  return Promise.all([readFile('/proc/self/mountinfo', 'utf8'), realpath(path)]).then(
    ([mountinfo, real]) => isKeeping(mountAt(mountinfo, real)),
    () => false,
  );
}

/**
 * Tells whether files of the mount have another stamp after every change, also after another file system has taken its
 * place. Images are made, and mounted, in turn: what they hold can agree in device, inode, length and all times
 * (reproducible builds set these).
 */
export function isKeeping(mount: Mount | undefined): boolean {
  if (mount === undefined) return false;
  return (
    SERVED.has(mount.type) || (KEEPING.has(mount.type) && !mount.readOnly && !/^\/dev\/(loop|nbd)/.test(mount.source))
  );
}

function changing(path: string): ModelFileError {
  return new ModelFileError(
    path,
    'file',
    'contents that change while they are read',
    'a file that nobody writes to; run again once it is complete',
  );
}

/** A file system where it is mounted, as Linux tells of it. */
interface Mount {
  /** Such as `ext4`. */
  readonly type: string;
  /** A device, a server, or whatever stands for one. */
  readonly source: string;
  /** Nobody can write to the file system, through whichever mount of it. */
  readonly readOnly: boolean;
}

/**
 * The mount that a file lies in.
 * @param mountinfo what `/proc/self/mountinfo` says
 * @param path absolute, without symbolic links
 */
export function mountAt(mountinfo: string, path: string): Mount | undefined {
  let found: Mount | undefined;
  let longest = -1;
  for (const line of mountinfo.split('\n')) {
    const [mount = '', system = ''] = line.split(' - ');
    const point = unescaped(mount.split(' ')[4] ?? '');
    const within = point.endsWith('/') ? point : `${point}/`;
    // Of mounts at one point the last one is seen.
    if (system === '' || point.length < longest || !path.startsWith(within)) continue;
    const [type = '', source = '', options = ''] = system.split(' ');
    found = { type, source: unescaped(source), readOnly: options.split(',').includes('ro') };
    longest = point.length;
  }
  return found;
}

/** Spaces, tabs, line ends and backslashes stand there as octal numbers. */
function unescaped(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 8)));
}
