import { describe, expect, test } from '@jest/globals';
import { from } from 'rxjs';
import { ALL_ON_CPU } from '../../src/engine/memory/movement.js';
import { compute } from '../../src/operators/compute.js';
import { storeCache } from '../../src/operators/storeCache.js';
import { describeStage, SPREAD, square, stageBench } from './support.js';

describeStage('storeCache', (run) => storeCache(run));

describe('storeCache', () => {
  test('sends what lives elsewhere on its way, once its rows have attended', () => {
    const bench = stageBench(SPREAD);
    from([square(0, 1)])
      .pipe(compute(bench), storeCache(bench))
      .subscribe();
    const stores = bench.issued.filter(({ task }) => task === 'store_cache 0 1 0');
    expect(stores).toEqual([
      { task: 'store_cache 0 1 0', after: ['compute.attend 0 1 0'] },
      { task: 'store_cache 0 1 0', after: ['compute.attend 0 1 0'] },
    ]);
  });

  test('issues nothing where everything is on the compute tier', () => {
    const bench = stageBench(ALL_ON_CPU);
    from([square(0, 1)])
      .pipe(storeCache(bench))
      .subscribe();
    expect(bench.issued).toEqual([]);
  });
});
