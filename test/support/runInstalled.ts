import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { built } from '../jobs/support/built.js';

/**
 * Runs the last of these programs in a folder where this package is installed.
 * @returns what it printed
 */
export function runInstalled(programs: Readonly<Record<string, string>>): string {
  built('cli/main.js');
  const folder = mkdtempSync(join(tmpdir(), 'spillway-installed-'));
  try {
    mkdirSync(join(folder, 'node_modules'));
    symlinkSync(resolve('.'), join(folder, 'node_modules', 'spillway'));
    for (const [name, program] of Object.entries(programs)) writeFileSync(join(folder, name), program);
    return execFileSync(process.execPath, [join(folder, Object.keys(programs).at(-1) ?? '')], { encoding: 'utf8' });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
