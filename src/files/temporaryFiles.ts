import { createHash, randomBytes } from 'node:crypto';
import { readdirSync, rmSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { isRunning, machineName } from './processes.js';

/** No process keeps a temporary file this long. (Those of this machine are asked; the clock may be set.) */
const STALE_SECONDS = 3600;
const ENDING = /^\.(\d+)-([0-9a-f]{8})[0-9a-f]{8}\.tmp$/;

let machine: string | undefined;

/**
 * A name beside a file for what is to take its place. It says whose it is, so that nothing is left for good by a
 * process that was killed.
 */
export function temporaryPath(path: string): string {
  return `${path}.${process.pid}-${machineHash()}${randomBytes(4).toString('hex')}.tmp`;
}

/**
 * Removes the temporary files, or folders, of a path that processes left which have ended; those of other machines,
 * that share the folder, after an hour.
 */
export function removeLeftovers(path: string): void {
  for (const file of leftoversOf(path)) rmSync(file, { force: true, recursive: true });
}

/** Lists the files that `removeLeftovers` removes. */
export function leftoversOf(path: string): string[] {
  const [folder, start] = [dirname(path), basename(path)];
  return namesIn(folder).flatMap((name) => {
    const [, pid, owner] = (name.startsWith(start) && ENDING.exec(name.slice(start.length))) || [];
    if (pid === undefined) return [];
    const file = join(folder, name);
    return (owner === machineHash() ? !isRunning(Number(pid)) : ageSeconds(file) > STALE_SECONDS) ? [file] : [];
  });
}

function machineHash(): string {
  return (machine ??= createHash('sha256').update(machineName()).digest('hex').slice(0, 8));
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    // Whoever writes there says why it cannot be used; a folder may be written to and not listed.
    return [];
  }
}

function ageSeconds(file: string): number {
  const stats = statSync(file, { throwIfNoEntry: false });
  return stats === undefined ? 0 : (Date.now() - stats.mtimeMs) / 1000;
}
