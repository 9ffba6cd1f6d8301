import { homedir } from 'node:os';
import { join } from 'node:path';

/**
 * Where the benchmarks keep what they fetch, build and make: models and programs, some gigabytes; SPILLWAY_BENCH_CACHE
 * names another folder.
 */
export function cacheFolder() {
  return (
    process.env.SPILLWAY_BENCH_CACHE ?? join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'spillway-bench')
  );
}
