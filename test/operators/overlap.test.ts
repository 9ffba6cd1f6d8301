import { describe, expect, test } from '@jest/globals';
import { from } from 'rxjs';
import { compute } from '../../src/operators/compute.js';
import { loadActivation } from '../../src/operators/loadActivation.js';
import { loadCache } from '../../src/operators/loadCache.js';
import { loadWeight } from '../../src/operators/loadWeight.js';
import { overlap } from '../../src/operators/overlap.js';
import { describeStage, SPREAD, square, stageBench } from './support.js';

describeStage('overlap', (run) => overlap(loadWeight(run), compute(run)));

describe('overlap', () => {
  test('its stages wait for data only', () => {
    const bench = stageBench(SPREAD);
    from([square(0, 1)])
      .pipe(overlap(loadWeight(bench), loadCache(bench), loadActivation(bench)))
      .subscribe();
    expect(bench.issued).toHaveLength(6);
    expect(bench.issued.every(({ after }) => after.length === 0)).toBe(true);
  });

  test('of nothing passes everything', () => {
    const seen: unknown[] = [];
    const one = square(0, 0);
    from([one])
      .pipe(overlap())
      .subscribe((value) => seen.push(value));
    expect(seen).toEqual([one]);
  });
});
