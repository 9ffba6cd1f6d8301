import { describe, expect, test } from '@jest/globals';
import { from } from 'rxjs';
import { compute } from '../../src/operators/compute.js';
import { loadCache } from '../../src/operators/loadCache.js';
import { loadWeight } from '../../src/operators/loadWeight.js';
import { overlap } from '../../src/operators/overlap.js';
import { serialize } from '../../src/operators/serialize.js';
import { describeStage, SPREAD, square, stageBench, type StageBench } from './support.js';

describeStage('serialize', (run) => serialize(loadWeight(run), compute(run)));

const squares = (): ReturnType<typeof square>[] => [square(0, 1, 0), square(0, 1, 1), square(0, 2, 0), square(0, 2, 1)];
const seconds = (bench: StageBench): number => bench.device.now;

describe('serialize', () => {
  test('each stage waits for the one before it, and the first for all of the previous square', () => {
    const bench = stageBench(SPREAD);
    const [first, second] = squares();
    if (!first || !second) throw new Error('two squares are needed');
    from([first, second])
      .pipe(serialize(loadCache(bench), compute(bench)))
      .subscribe();
    const of = (slot: number, name: string): readonly string[] | undefined =>
      bench.issued.find(({ task }) => task === `${name} 0 1 ${slot}`)?.after;
    expect(of(0, 'compute.project')).toEqual(expect.arrayContaining(['load_cache 0 1 0']));
    expect(of(1, 'load_cache')).toEqual(
      expect.arrayContaining([
        'load_cache 0 1 0',
        'compute.project 0 1 0',
        'compute.attend 0 1 0',
        'compute.finish 0 1 0',
      ]),
    );
  });

  test('takes the sum of all tasks where overlap takes less', () => {
    const duration = (): number => 1;
    const [serial, parallel] = [stageBench(SPREAD, { duration }), stageBench(SPREAD, { duration })];
    from(squares())
      .pipe(serialize(loadWeight(serial), loadCache(serial), compute(serial)))
      .subscribe();
    from(squares())
      .pipe(overlap(loadWeight(parallel), loadCache(parallel), compute(parallel)))
      .subscribe();
    expect(serial.issued.length).toBe(parallel.issued.length);
    // The two routes of one load still run side by side: they belong to one stage.
    expect(seconds(serial)).toBe(squares().length * 3 + squares().length + 2);
    expect(seconds(parallel)).toBeLessThan(seconds(serial));
  });
});
