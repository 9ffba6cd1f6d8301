// The machine's arithmetic peak, measured by native/bench/peak.cpp, which is built where it is missing.
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { cacheFolder } from './cacheFolder.mjs';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));

function run(program, args) {
  return execFileSync(program, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
}

/** @returns the path of the program */
export function buildPeak(cache = cacheFolder()) {
  const folder = join(cache, 'build-peak');
  run('cmake', ['-S', ROOT, '-B', folder, '-DSPILLWAY_BENCH=ON', '-DCMAKE_BUILD_TYPE=Release']);
  run('cmake', ['--build', folder, '--target', 'bench_peak']);
  return join(folder, 'native', 'bench', 'bench_peak');
}

/**
 * @returns {{instructionSet: string, threads: number, int8OperationsPerSecond: number, floatOperationsPerSecond: number}}
 *   a multiplication and an addition are two operations; 0 where there is no such loop for the machine
 */
export function measurePeak(program, threads) {
  return JSON.parse(run(program, [String(threads)]));
}
