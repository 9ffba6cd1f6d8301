import { describe, expect, test } from '@jest/globals';
import { lastValueFrom, toArray } from 'rxjs';
import { defaultWindow } from '../../../src/engine/execution/defaultWindow.js';
import { defaultPipeline } from '../../../src/operators/defaultPipeline.js';
import { finishedRows } from '../../../src/operators/finishedRows.js';
import { squares } from '../../../src/operators/squares.js';
import { simulatedRun } from '../../support/simulatedRun.js';

const GRID = { layers: 6, slots: 12, rowsPerSlot: 1, tokensPerSquare: 8 };
const FROM_DISK = { gpu: 0, cpu: 0, disk: 1 };
const HERE = { gpu: 0, cpu: 1, disk: 0 };

/** Virtual seconds of a run whose layers take as long to load as to compute: 12 each. */
async function secondsWith(window: number): Promise<number> {
  const { run, events } = simulatedRun({
    grid: GRID,
    rows: Array.from({ length: 12 }, () => ({ promptTokens: 4, newTokens: 8 })),
    placement: { weights: FROM_DISK, cache: HERE, activations: HERE },
    simulation: { duration: ({ name, part }) => (name === 'load_weight' ? 12 : part === 'finish' ? 1 : 0) },
    window,
  });
  await lastValueFrom(squares(run).pipe(defaultPipeline(run), finishedRows(run), toArray()));
  return Math.max(...events.map(({ timing }) => timing?.end ?? 0));
}

describe('defaultWindow', () => {
  test('with many batches a layer is loaded while all of the layer before is computed', async () => {
    const ideal = 8 * GRID.layers * 12;
    expect(await secondsWith(defaultWindow(GRID))).toBeLessThan(1.05 * ideal);
    // Eight squares are less than a layer here: the disk waits for the first of the next one.
    expect(await secondsWith(8)).toBeGreaterThan(1.2 * ideal);
  });
});
