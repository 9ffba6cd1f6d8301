import { lstat, readlink, realpath, stat } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { UsageError } from '../errors/UsageError.js';

const MOST_LINKS = 40;
/** The paths that stand for a file that a process has open. */
const DESCRIPTOR = /^\/(?:dev|proc\/(?:self|thread-self|(\d+))(?:\/task\/\d+)?)\/fd\/(\d+)$/;
const STANDARD: Readonly<Record<string, number>> = { '/dev/stdin': 0, '/dev/stdout': 1, '/dev/stderr': 2 };

/**
 * Where a file is, or will be that is not there yet, also through a link that leads nowhere so far: one path for all
 * names of it.
 */
export async function realPathOf(path: string): Promise<string> {
  let place = resolve(path);
  for await (const next of linksOf(place)) place = next;
  return join(await realpath(dirname(place)).catch(() => dirname(place)), basename(place));
}

/**
 * Which of this process's open files a path stands for, such as /dev/stdout, or a link to that; undefined for other
 * paths.
 */
export async function descriptorOf(path: string): Promise<number | undefined> {
  for await (const place of linksOf(resolve(path))) {
    const [, pid, descriptor] = DESCRIPTOR.exec(place) ?? [];
    if (descriptor !== undefined && (pid === undefined || Number(pid) === process.pid)) return Number(descriptor);
    const standard = STANDARD[place];
    if (standard !== undefined) return standard;
  }
  return undefined;
}

/** A path, what it is a link to, and so on. */
async function* linksOf(path: string): AsyncGenerator<string, void, undefined> {
  let place = path;
  for (let links = 0; links < MOST_LINKS; links += 1) {
    yield place;
    const link = await lstat(place).then(
      (stats) => stats.isSymbolicLink(),
      () => false,
    );
    if (!link) return;
    place = resolve(await realpath(dirname(place)).catch(() => dirname(place)), await readlink(place));
  }
}

/** A file that a run reads or writes, and what the user calls it: `--stats`, `output`. */
export interface NamedFile {
  readonly name: string;
  readonly path: string;
  readonly written: boolean;
}

/**
 * Refuses to write a file that is read too, or written twice. Two names of one file (links, other ways to the same
 * folder) are one file; devices and pipes may serve several purposes.
 * @throws UsageError naming both
 */
export async function checkDistinctFiles(files: readonly NamedFile[]): Promise<void> {
  const seen = new Map<string, NamedFile>();
  for (const file of files) {
    const identity = await identityOf(file);
    if (identity === undefined) continue;
    const other = seen.get(identity);
    if (other !== undefined && (other.written || file.written))
      throw new UsageError(`${other.name} and ${file.name} name the same file: ${file.path}`);
    seen.set(identity, file);
  }
}

/** Undefined for what writing cannot destroy: devices, pipes, folders, and what is to be read and not there. */
async function identityOf({ path, written }: NamedFile): Promise<string | undefined> {
  const stats = await stat(path, { bigint: true }).catch(() => undefined);
  if (stats !== undefined) return stats.isFile() ? `${stats.dev}:${stats.ino}` : undefined;
  return written ? realPathOf(path) : undefined;
}
