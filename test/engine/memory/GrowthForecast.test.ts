import { expect, test } from '@jest/globals';
import { GrowthForecast, type GrowingRow } from '../../../src/engine/memory/GrowthForecast.js';
import { placePages } from '../../../src/engine/memory/placePages.js';

const RULES = { pageTokens: 1, diskShare: 0, mostDiskPages: 0 };
const row = (next: number, positions: number): GrowingRow => ({
  promptTokens: 1,
  positions,
  placement: placePages(positions, RULES),
  next,
});

test('a row that may come faster is counted as growing at once and as ending no earlier: the schedule may decline', () => {
  // Both fill what there is when each goes on by a token a sweep.
  const forecast = new GrowthForecast({ gpu: 0, memory: 24, disk: 0 }, 1, { tokensPerSquare: 16, rowsPerSlot: 2 });
  const [x, y] = [row(10, 14), row(5, 15)];
  forecast.add(x);
  forecast.add(y);
  // If x jumps and ends early there is room for y to jump, too; x may not jump, and y would have taken its pages.
  expect([forecast.hastens(x, 14), forecast.hastens(y, 9)]).not.toEqual([true, true]);
});
