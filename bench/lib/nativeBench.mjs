// The programs under native/bench, built where they are missing: Release, in a folder of the benchmarks' own.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { cacheFolder } from './cacheFolder.mjs';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));

/** Runs a program to its end; throws if it fails. @returns what it wrote to standard output */
export function run(program, args) {
  return execFileSync(program, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'], maxBuffer: 2 ** 28 });
}

/** One for each checkout: CMake refuses a folder that another one configured. */
const CHECKOUT = createHash('sha256').update(ROOT).digest('hex').slice(0, 8);

/**
 * @param {string} name of the folder that it is built in
 * @param {string[]} targets names of programs, such as `bench_matmul`
 * @returns {string[]} their paths
 */
export function buildNative(name, targets, cache = cacheFolder()) {
  const folder = join(cache, `${name}-${CHECKOUT}`);
  run('cmake', ['-S', ROOT, '-B', folder, '-DSPILLWAY_BENCH=ON', '-DCMAKE_BUILD_TYPE=Release', '-DSPILLWAY_CUDA=OFF']);
  run('cmake', ['--build', folder, '--parallel', '2', '--target', ...targets]);
  return targets.map((target) => join(folder, 'native', 'bench', target));
}
