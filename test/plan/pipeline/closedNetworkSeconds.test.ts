import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { closedNetworkSeconds } from '../../../src/plan/pipeline/closedNetworkSeconds.js';

const seconds = fc.double({ min: 0, max: 100, noNaN: true });
const stations = fc.array(seconds, { minLength: 1, maxLength: 4 });
const sumOf = (numbers: readonly number[]): number => numbers.reduce((sum, each) => sum + each, 0);

describe('squares in a closed network', () => {
  test('one alone waits for nobody; two that want one station alone take turns', () => {
    expect(closedNetworkSeconds(1, [3, 2], 4)).toBe(9);
    expect(closedNetworkSeconds(2, [3], 0)).toBe(6);
    // By hand: with one, 3/9 and 2/9 are queued; 3 (1 + 3/9) + 2 (1 + 2/9) + 4.
    expect(closedNetworkSeconds(2, [3, 2], 4)).toBeCloseTo(4 + 22 / 9 + 4, 12);
    expect(closedNetworkSeconds(1.5, [3, 2], 4)).toBeCloseTo((9 + 4 + 22 / 9 + 4) / 2, 12);
    expect(closedNetworkSeconds(2, [0, 0], 0)).toBe(0);
  });

  test('no sooner than the busiest station allows, nor than one alone; no later than one after another', () => {
    fc.assert(
      fc.property(fc.double({ min: 1, max: 8, noNaN: true }), stations, seconds, (squares, each, elsewhere) => {
        const found = closedNetworkSeconds(squares, each, elsewhere);
        const alone = closedNetworkSeconds(1, each, elsewhere);
        const slack = 1e-9 * (1 + squares * alone);
        expect(found).toBeGreaterThanOrEqual(Math.max(alone, squares * Math.max(...each)) - slack);
        expect(found).toBeLessThanOrEqual(squares * sumOf(each) + elsewhere + slack);
      }),
    );
  });
});
