import { describe, expect, test } from '@jest/globals';
import { from, lastValueFrom, toArray } from 'rxjs';
import { defaultPipeline } from '../../src/operators/defaultPipeline.js';
import { serialPipeline } from '../../src/operators/serialPipeline.js';
import { SPREAD, square, stageBench } from './support.js';

const squares = (): ReturnType<typeof square>[] =>
  [0, 1, 2].flatMap((layer) => [square(0, layer, 0), square(0, layer, 1)]);

describe('serialPipeline', () => {
  test('issues the same tasks as defaultPipeline, and takes longer', async () => {
    const run = async (make: typeof serialPipeline): Promise<{ tasks: string[]; seconds: number }> => {
      const bench = stageBench(SPREAD, { duration: () => 1 });
      await lastValueFrom(from(squares()).pipe(make(bench), toArray()));
      return { tasks: bench.issued.map(({ task }) => task), seconds: bench.device.now };
    };
    const [serial, overlapping] = [await run(serialPipeline), await run(defaultPipeline)];
    expect(serial.tasks).toEqual(overlapping.tasks);
    expect(serial.seconds).toBeGreaterThan(overlapping.seconds);
  });
});
