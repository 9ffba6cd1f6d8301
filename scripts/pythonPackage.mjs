import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * A Python environment in `folder` that has a package of the index, such as `ziglang==0.17.1`; made if it is not there.
 * @returns the folder of its programs
 * @throws where there is no Python with venv, or no package index
 */
export function pythonPackage(folder, requirement) {
  const programs = join(folder, 'bin');
  const done = join(folder, 'installed');
  if (existsSync(done) && readFileSync(done, 'utf8') === requirement) return programs;
  run('python3', ['-m', 'venv', folder]);
  run(join(programs, 'python'), ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', requirement]);
  // Last: what was interrupted is done again.
  writeFileSync(done, requirement);
  return programs;
}

/** Runs a program to its end; what it says goes to standard error. @throws where it fails */
export function run(program, args, settings = {}) {
  const { status, error } = spawnSync(program, args, { stdio: ['ignore', 2, 2], ...settings });
  if (status !== 0) throw new Error(`${program} ${args.join(' ')}: ${error?.message ?? `exit ${status}`}`);
}
