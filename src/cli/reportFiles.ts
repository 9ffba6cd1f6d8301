import { open, stat, writeFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { describeFileError, JobFileError, UsageError, writeFileAtomic, type RunStats } from './library.js';

/**
 * Refuses paths that would overwrite each other, and folders that are not there, before a long run.
 * @throws UsageError, JobFileError
 */
export async function checkReportPaths(paths: Readonly<Record<string, string | undefined>>): Promise<void> {
  const seen = new Map<string, string>();
  for (const [flag, path] of Object.entries(paths)) {
    if (path === undefined) continue;
    const stats = await stat(path).catch(() => undefined);
    // Devices such as /dev/null may serve several purposes; two names of one file are one file.
    if (stats !== undefined && !stats.isFile() && !stats.isDirectory()) continue;
    const key = stats === undefined ? resolve(path) : `${stats.dev}:${stats.ino}`;
    const other = seen.get(key);
    if (other !== undefined) throw new UsageError(`--${other} and --${flag} name the same file: ${path}`);
    seen.set(key, flag);
    if (flag === 'stats' || flag === 'trace' || flag === 'html') {
      await checkWritable(path);
    }
  }
}

/** Refuses a path that is a folder, or in a folder that is not there. @throws JobFileError */
export async function checkWritable(path: string): Promise<void> {
  const stats = await stat(path).catch(() => undefined);
  if (stats?.isDirectory() === true) throw new JobFileError(path, 'cannot be written: it is a folder, expected a file');
  await open(dirname(path), 'r').then(
    (folder) => folder.close(),
    (error: unknown) => {
      throw new JobFileError(path, `cannot be written: ${describeFileError(error)}`, { cause: error });
    },
  );
}

/** @throws JobFileError */
export async function writeStats(path: string, stats: RunStats): Promise<void> {
  const text = `${JSON.stringify(stats, undefined, 2)}\n`;
  const existing = await stat(path).catch(() => undefined);
  if (existing === undefined || existing.isFile()) return writeFileAtomic(path, text);
  try {
    await writeFile(path, text);
  } catch (error) {
    throw new JobFileError(path, `cannot be written: ${describeFileError(error)}`, { cause: error });
  }
}
