import { describe, expect, test } from '@jest/globals';
import { from } from 'rxjs';
import { ALL_ON_CPU } from '../../src/engine/memory/movement.js';
import { compute } from '../../src/operators/compute.js';
import { loadCache } from '../../src/operators/loadCache.js';
import { storeCache } from '../../src/operators/storeCache.js';
import { describeStage, SPREAD, square, stageBench, words } from './support.js';

describeStage('loadCache', (run) => loadCache(run));

describe('loadCache', () => {
  test('brings what lives elsewhere, and attention waits for it', () => {
    const bench = stageBench(SPREAD);
    const one = square(1, 1);
    from([one]).pipe(loadCache(bench), compute(bench)).subscribe();
    const [fromGpuOrDisk, other, project, attend] = bench.issued;
    expect(fromGpuOrDisk?.task).toBe(other?.task);
    expect(project).toEqual({ task: 'compute.project 1 1 0', after: [] });
    expect(one.events.cache).toHaveLength(2);
    expect(attend).toEqual({
      task: 'compute.attend 1 1 0',
      after: ['compute.project 1 1 0', ...one.events.cache.map(words)],
    });
  });

  test('issues nothing where everything is on the compute tier', () => {
    const bench = stageBench(ALL_ON_CPU);
    from([square(1, 1)])
      .pipe(loadCache(bench))
      .subscribe();
    expect(bench.issued).toEqual([]);
  });

  test('waits for what was stored before', () => {
    const bench = stageBench(SPREAD);
    from([square(0, 1), square(1, 1)])
      .pipe(loadCache(bench), compute(bench), storeCache(bench))
      .subscribe();
    const last = bench.issued.filter(({ task }) => task.startsWith('load_')).at(-1);
    expect(last?.after).toContain('store_cache 0 1 0');
  });

  test('where a row begins behind others, for what is stored of the layer in any slot', () => {
    const bench = stageBench(SPREAD);
    const begins = square(1, 1, 1);
    // What others share is there; a row beside has something to load.
    const rows = begins.batch.rows.flatMap((range) => [{ ...range, firstPosition: 4, sharedTokens: 4 }, range]);
    from([square(0, 1, 0), { ...begins, batch: { ...begins.batch, rows } }, square(1, 1, 2)])
      .pipe(loadCache(bench), compute(bench), storeCache(bench))
      .subscribe();
    const after = (slot: number): readonly string[] =>
      bench.issued.filter(({ task }) => task.startsWith('load_') && task.endsWith(` ${slot}`)).at(-1)?.after ?? [];
    expect(after(1)).toContain('store_cache 0 1 0');
    expect(after(2)).not.toContain('store_cache 0 1 0');
  });

  test('with ahead 0 it waits until the square before has attended', () => {
    const bench = stageBench(SPREAD);
    from([square(0, 1, 0), square(0, 1, 1)])
      .pipe(loadCache(bench, { ahead: 0 }), compute(bench))
      .subscribe();
    const last = bench.issued.filter(({ task }) => task.startsWith('load_')).at(-1);
    expect(last?.after).toEqual(['compute.attend 0 1 0']);
  });
});
