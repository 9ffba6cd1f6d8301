// The disk below a file: what it has read, how fast it reads, and pages of the file that are in memory.
import { spawnSync } from 'node:child_process';
import { readFileSync, statSync } from 'node:fs';

/** Of the disk below a file or folder, `{ major, minor }`: Linux's encoding of device numbers in 64 bits. */
export function deviceBelow(path) {
  const { dev } = statSync(path);
  return { major: (dev >> 8) & 0xfff, minor: (dev & 0xff) | ((dev >> 12) & 0xfff00) };
}

/**
 * Bytes that the file's disk has read since the machine started; undefined where the system does not tell. All programs
 * count.
 */
export function bytesReadFromDisk(file) {
  try {
    const { major, minor } = deviceBelow(file);
    const line = readFileSync('/proc/diskstats', 'utf8')
      .split('\n')
      .map((each) => each.trim().split(/\s+/))
      .find((fields) => Number(fields[0]) === major && Number(fields[1]) === minor);
    return line === undefined ? undefined : Number(line[5]) * 512;
  } catch {
    return undefined;
  }
}

/** Drops the file's pages from memory: pages that are there already would not be charged to a cap. */
export function dropCached(file) {
  spawnSync('dd', [`if=${file}`, 'iflag=nocache', 'count=0', 'status=none']);
}

/**
 * Bytes a second of one reader with large direct reads, over the first part of the file; undefined where the file
 * system has no direct reads.
 */
export function directReadSpeed(file) {
  const blocks = Math.max(1, Math.min(64, Math.floor(statSync(file).size / 2 ** 24)));
  const start = performance.now();
  const { status } = spawnSync('dd', [
    `if=${file}`,
    'of=/dev/null',
    'iflag=direct',
    'bs=16M',
    `count=${blocks}`,
    'status=none',
  ]);
  return status === 0
    ? (Math.min(blocks * 2 ** 24, statSync(file).size) * 1000) / (performance.now() - start)
    : undefined;
}
