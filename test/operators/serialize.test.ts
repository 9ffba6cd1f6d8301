import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { from, lastValueFrom, toArray } from 'rxjs';
import { ALL_ON_CPU } from '../../src/engine/memory/movement.js';
import { compute } from '../../src/operators/compute.js';
import { loadCache } from '../../src/operators/loadCache.js';
import { loadWeight } from '../../src/operators/loadWeight.js';
import { overlap } from '../../src/operators/overlap.js';
import { serialize } from '../../src/operators/serialize.js';
import { serialPipeline } from '../../src/operators/serialPipeline.js';
import { runs } from '../support/arbitraryRuns.js';
import { judgedRun } from '../support/judgedRun.js';
import { tasksAtOnce } from '../support/tasksAtOnce.js';
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
    // Three parts of compute a square, a head for each of the last layer; cache and weights come by two routes, which
    // take turns as well, and the two squares of a layer share its weights.
    expect(serial.issued.length).toBe(squares().length * 3 + 2 + squares().length * 2 + 2 * 2);
    expect(seconds(serial)).toBe(serial.issued.length);
    expect(seconds(parallel)).toBeLessThan(seconds(serial));
  });

  test('a stage that issues nothing lets nothing overtake', () => {
    const bench = stageBench(ALL_ON_CPU, { duration: () => 1, unordered: true });
    from(squares()).pipe(serialPipeline(bench)).subscribe();
    expect(bench.issued.length).toBe(squares().length * 3 + 2);
    expect(seconds(bench)).toBe(bench.issued.length);
  });

  test('a square waits for what other stages have issued for the one before', () => {
    const bench = stageBench(SPREAD);
    const [first, second] = squares();
    if (!first || !second) throw new Error('two squares are needed');
    from([first, second])
      .pipe(overlap(serialize(loadCache(bench)), compute(bench)))
      .subscribe();
    expect(bench.issued.find(({ task }) => task === 'load_cache 0 1 1')?.after).toContain('compute.finish 0 1 0');
  });

  test('what has completed is not waited for, however many squares pass that issue nothing', () => {
    const bench = stageBench(ALL_ON_CPU);
    const many = Array.from({ length: 100 }, (_, pass) => square(pass, 1));
    from(many)
      .pipe(serialize(loadWeight(bench), loadCache(bench)), compute(bench), serialize())
      .subscribe();
    expect(many.every(({ events }) => events.series === undefined)).toBe(true);
    expect(Math.max(...bench.issued.map(({ after }) => after.length))).toBeLessThanOrEqual(1);
  });

  test('never two at once, whatever the rows, schedule, composition, placement and device', async () => {
    await fc.assert(
      fc.asyncProperty(runs, fc.boolean(), fc.boolean(), async (given, hostAttends, pagesFirst) => {
        const judged = judgedRun({
          ...given,
          simulation: { ...given.simulation, hostAttends, pagesFirst },
          pipeline: (run) => serialize(given.pipeline(run)),
        });
        await lastValueFrom(judged.results$.pipe(toArray()));
        expect(tasksAtOnce(judged.events.flatMap(({ task, timing }) => (timing ? [{ task, ...timing }] : [])))).toEqual(
          [],
        );
      }),
      { numRuns: 150 },
    );
  });
});
