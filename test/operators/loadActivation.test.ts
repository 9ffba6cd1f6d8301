import { describe, expect, test } from '@jest/globals';
import { from } from 'rxjs';
import { ALL_ON_CPU } from '../../src/engine/memory/movement.js';
import { compute } from '../../src/operators/compute.js';
import { loadActivation } from '../../src/operators/loadActivation.js';
import { storeActivation } from '../../src/operators/storeActivation.js';
import { describeStage, SPREAD, square, stageBench, words } from './support.js';

describeStage('loadActivation', (run) => loadActivation(run));

describe('loadActivation', () => {
  test('brings what lives elsewhere, and compute waits for it', () => {
    const bench = stageBench(SPREAD);
    const one = square(1, 1);
    from([one]).pipe(loadActivation(bench), compute(bench)).subscribe();
    const [fromGpuOrDisk, other, project] = bench.issued;
    expect(fromGpuOrDisk?.task).toBe(other?.task);
    expect(project).toEqual({ task: 'compute.project 1 1 0', after: one.events.inputs.map(words) });
    expect(one.events.inputs).toHaveLength(2);
  });

  test('issues nothing where everything is on the compute tier', () => {
    const bench = stageBench(ALL_ON_CPU);
    from([square(1, 1)])
      .pipe(loadActivation(bench))
      .subscribe();
    expect(bench.issued).toEqual([]);
  });

  test('waits for what was stored before', () => {
    const bench = stageBench(SPREAD);
    from([square(0, 1), square(0, 2)])
      .pipe(loadActivation(bench), compute(bench), storeActivation(bench))
      .subscribe();
    const last = bench.issued.filter(({ task }) => task.startsWith('load_')).at(-1);
    expect(last?.after).toContain('store_activation 0 1 0');
  });

  test('with ahead 0 it waits for the square before', () => {
    const bench = stageBench(SPREAD);
    from([square(0, 1, 0), square(0, 1, 1)])
      .pipe(loadActivation(bench, { ahead: 0 }), compute(bench))
      .subscribe();
    const last = bench.issued.filter(({ task }) => task.startsWith('load_')).at(-1);
    expect(last?.after).toEqual(['compute.finish 0 1 0']);
  });
});
