import { describe, expect, test } from '@jest/globals';
import { from } from 'rxjs';
import { ALL_ON_CPU } from '../../src/engine/memory/movement.js';
import { compute } from '../../src/operators/compute.js';
import { storeActivation } from '../../src/operators/storeActivation.js';
import { describeStage, SPREAD, square, stageBench } from './support.js';

describeStage('storeActivation', (run) => storeActivation(run));

describe('storeActivation', () => {
  test('sends what lives elsewhere on its way, after compute', () => {
    const bench = stageBench(SPREAD);
    from([square(0, 1)])
      .pipe(compute(bench), storeActivation(bench))
      .subscribe();
    const stores = bench.issued.filter(({ task }) => task === 'store_activation 0 1 0');
    expect(stores).toEqual([
      { task: 'store_activation 0 1 0', after: ['compute.finish 0 1 0'] },
      { task: 'store_activation 0 1 0', after: ['compute.finish 0 1 0'] },
    ]);
  });

  test('issues nothing where everything is on the compute tier', () => {
    const bench = stageBench(ALL_ON_CPU);
    from([square(0, 1)])
      .pipe(storeActivation(bench))
      .subscribe();
    expect(bench.issued).toEqual([]);
  });
});
