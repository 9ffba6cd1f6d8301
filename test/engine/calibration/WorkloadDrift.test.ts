import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { WorkloadDrift } from '../../../src/engine/calibration/WorkloadDrift.js';

const PLANNED = { promptTokens: 100, newTokens: 50 };

function run(drift: WorkloadDrift, rows: number, promptTokens: number, newTokens: number): void {
  for (let row = 0; row < rows; row++) {
    drift.prompt(promptTokens);
    drift.ended(newTokens);
  }
}

describe('WorkloadDrift', () => {
  test('rows about as long as planned change nothing', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 67, max: 150 }),
        fc.integer({ min: 34, max: 75 }),
        fc.integer({ min: 1, max: 300 }),
        (prompt, answer, rows) => {
          const drift = new WorkloadDrift(PLANNED, 64, () => 1);
          run(drift, rows, prompt, answer);
          expect([drift.rows, drift.replans]).toEqual([64, []]);
        },
      ),
    );
  });

  test('others are planned for anew, once as many have ended as are under way together', () => {
    const asked: object[] = [];
    const drift = new WorkloadDrift(PLANNED, 64, (workload) => (asked.push(workload), 128));
    run(drift, 63, 100, 10);
    expect(drift.rows).toBe(64);
    run(drift, 1, 100, 10);
    expect(drift.rows).toBe(128);
    expect(drift.replans).toEqual([{ workload: { promptTokens: 100, newTokens: 10 }, rows: 128 }]);
    // The new lengths are what is planned for from now on.
    run(drift, 1000, 100, 10);
    expect(asked).toHaveLength(1);
    run(drift, 256, 300, 10);
    expect(asked).toEqual([
      { promptTokens: 100, newTokens: 10 },
      { promptTokens: 300, newTokens: 10 },
    ]);
  });

  test('a few rows say nothing, and neither do answers of no tokens break anything', () => {
    const drift = new WorkloadDrift(PLANNED, 2, () => 3);
    run(drift, 31, 1, 0);
    expect(drift.replans).toEqual([]);
    run(drift, 1, 1, 0);
    expect(drift.replans).toEqual([{ workload: { promptTokens: 1, newTokens: 1 }, rows: 3 }]);
  });
});
