import { describe, expect, test } from '@jest/globals';
import { lastValueFrom, map, toArray } from 'rxjs';
import { UsageError } from '../../src/errors/UsageError.js';
import { defaultPipeline } from '../../src/operators/defaultPipeline.js';
import { throughStages } from '../../src/operators/throughStages.js';
import { simulatedRun } from '../support/simulatedRun.js';

const GRID = { layers: 2, slots: 1, rowsPerSlot: 2, tokensPerSquare: 4 };
const rows = [
  { promptTokens: 3, newTokens: 2 },
  { promptTokens: 1, newTokens: 1 },
];

describe('throughStages', () => {
  test("leads a run's squares through the stages to its results; by default those of defaultPipeline", async () => {
    for (const pipeline of [undefined, defaultPipeline]) {
      const { run } = simulatedRun({ grid: GRID, rows });
      const results = await lastValueFrom(
        throughStages(run, pipeline).pipe(
          map(({ index }) => index),
          toArray(),
        ),
      );
      expect(results.sort()).toEqual([0, 1]);
    }
  });

  test.each<[string, unknown, string]>([
    ['no function', 'x', 'pipeline: found "x", expected a function'],
    ['a function that returns no stages', () => undefined, 'pipeline: found one that returns undefined'],
    ['stages that return no Observable', () => () => 5, 'pipeline: found stages that return 5'],
  ])('%s is refused, and the run is over', async (_, pipeline, message) => {
    const { run, pool } = simulatedRun({ grid: GRID, rows });
    expect(() => throughStages(run, pipeline as typeof defaultPipeline)).toThrow(UsageError);
    await run.settled();
    const again = simulatedRun({ grid: GRID, rows, pool });
    expect(() => throughStages(again.run, pipeline as typeof defaultPipeline)).toThrow(message);
    expect(pool.used).toEqual({ gpu: 0, memory: 0, disk: 0 });
  });
});
