import { describe, expect, test } from '@jest/globals';
import { firstValueFrom, from, lastValueFrom, Subject, toArray } from 'rxjs';
import type { IssuedSquare } from '../../src/engine/execution/IssuedSquare.js';
import { ALL_ON_CPU } from '../../src/engine/memory/movement.js';
import { compute } from '../../src/operators/compute.js';
import { storeCache } from '../../src/operators/storeCache.js';
import { synchronize } from '../../src/operators/synchronize.js';
import { describeStage, SPREAD, square, stageBench } from './support.js';

describeStage('synchronize', (run) => synchronize(run), { waits: true });

describe('synchronize', () => {
  test('lets a square pass only when all that was issued for it has completed', async () => {
    const bench = stageBench(SPREAD, { duration: ({ name }) => (name === 'store_cache' ? 9 : 1) });
    const one = await firstValueFrom(from([square(0, 1)]).pipe(compute(bench), storeCache(bench), synchronize(bench)));
    expect(one.events.all).toHaveLength(5);
    expect(one.events.all.every((event) => event.timing !== undefined)).toBe(true);
  });

  test('keeps the order of squares, whichever ends first', async () => {
    const bench = stageBench(SPREAD, {
      duration: ({ name, batch }) => (name === 'store_cache' && batch.slot === 0 ? 100 : 1),
    });
    const squares = [square(0, 1, 0), square(0, 1, 1)];
    await expect(
      lastValueFrom(from(squares).pipe(compute(bench), storeCache(bench), synchronize(bench), toArray())),
    ).resolves.toEqual(squares);
  });

  test('hands over what the head found', async () => {
    const bench = stageBench(ALL_ON_CPU, { sample: () => 42 });
    bench.device.openRun(1);
    bench.device.openRow(1, 0, {
      tokens: [1],
      capacityTokens: 9,
      temperature: 0,
      topP: 1,
      topK: 0,
      minP: 0,
      repetitionPenalty: 1,
      seed: 0,
      logprobs: -1,
    });
    const [one] = await lastValueFrom(from([square(0, 2)]).pipe(compute(bench), synchronize(bench), toArray()));
    expect(one?.events.head?.sampled.get(0)?.token).toBe(42);
  });

  test('a failed task is the error of the stream', async () => {
    const bench = stageBench(ALL_ON_CPU, { fail: ({ part }) => (part === 'attend' ? 'out of breath' : undefined) });
    await expect(lastValueFrom(from([square(0, 1)]).pipe(compute(bench), synchronize(bench)))).rejects.toThrow(
      'compute (attend) pass 0 layer 1 slot 0: out of breath',
    );
  });

  test('does not complete before its last square', () => {
    const bench = stageBench(ALL_ON_CPU);
    const source$ = new Subject<IssuedSquare>();
    let complete = false;
    source$.pipe(compute(bench), synchronize(bench)).subscribe({ complete: () => (complete = true) });
    source$.next(square(0, 1));
    source$.complete();
    expect(complete).toBe(false);
  });
});
