import { describe, expect, test } from '@jest/globals';
import { from } from 'rxjs';
import { ALL_ON_CPU } from '../../src/engine/memory/movement.js';
import { UsageError } from '../../src/errors/UsageError.js';
import { compute } from '../../src/operators/compute.js';
import { loadWeight } from '../../src/operators/loadWeight.js';
import { describeStage, SPREAD, square, stageBench } from './support.js';

describeStage('loadWeight', (run) => loadWeight(run));

const sweep = [0, 1, 2].flatMap((layer) => [square(0, layer, 0), square(0, layer, 1)]);

describe('loadWeight', () => {
  test('loads each layer once a pass, for all slots', () => {
    const bench = stageBench(SPREAD);
    from([...sweep, square(1, 0, 0)])
      .pipe(loadWeight(bench))
      .subscribe();
    // A third on the GPU and a third on disk have to come to the CPU, where this device computes.
    expect(bench.issued.map(({ task }) => task)).toEqual(
      [0, 1, 2]
        .flatMap((layer) => Array(2).fill(`load_weight 0 ${layer} 0`))
        .concat(Array(2).fill('load_weight 1 0 0')),
    );
    expect(sweep[1]?.events.inputs).toEqual(sweep[0]?.events.inputs);
  });

  test('issues nothing for weights that are where computing happens', () => {
    const bench = stageBench(ALL_ON_CPU);
    from(sweep).pipe(loadWeight(bench)).subscribe();
    expect(bench.issued).toEqual([]);
  });

  test.each([
    [0, 'compute.finish 0 0 1'], // the layer before, its last slot
    [1, undefined],
  ])('with ahead %i the second layer waits for %s', (ahead, expected) => {
    const bench = stageBench({ ...ALL_ON_CPU, weights: { gpu: 0, cpu: 0, disk: 1 } });
    const squares = [square(0, 0, 0), square(0, 0, 1), square(0, 1, 0), square(0, 1, 1)];
    from(squares).pipe(loadWeight(bench, { ahead }), compute(bench)).subscribe();
    const second = bench.issued.find(({ task }) => task === 'load_weight 0 1 0');
    expect(second?.after.at(-1)).toBe(expected);
  });

  test('disk to GPU goes by way of the CPU, one hop after the other', () => {
    const bench = stageBench({ ...ALL_ON_CPU, weights: { gpu: 0, cpu: 0, disk: 1 } }, { computeTier: 'gpu' });
    from([square(0, 0)])
      .pipe(loadWeight(bench))
      .subscribe();
    expect(bench.issued).toEqual([
      { task: 'load_weight 0 0 0', after: [] },
      { task: 'load_weight 0 0 0', after: ['load_weight 0 0 0'] },
    ]);
  });

  test.each([-1, 0.5, NaN])('refuses ahead %d', (ahead) => {
    expect(() => loadWeight(stageBench(SPREAD), { ahead })).toThrow(UsageError);
  });
});
