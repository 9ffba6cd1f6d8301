import type { PagePool, RunPages } from '../../src/engine/memory/PagePool.js';

/**
 * Watches what the runs of a pool share from now on.
 * @returns to be called when they are over: throws where a page is held, read or kept, or a row still waits
 */
export function watchSharing(pool: PagePool): () => void {
  const runs: RunPages[] = [];
  const open = pool.openRun.bind(pool);
  pool.openRun = (...args) => {
    const run = open(...args);
    runs.push(run);
    return run;
  };
  return () => {
    for (const run of runs) {
      const census = run.census();
      if (Object.values(census).some((count) => count !== 0))
        throw new Error(`something is left of a run that is over: ${JSON.stringify(census)}`);
    }
    const { gpu, memory, disk } = pool.used;
    if (gpu + memory + disk !== 0) throw new Error(`pages were not given back: ${JSON.stringify(pool.used)}`);
  };
}
