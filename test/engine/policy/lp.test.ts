import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import loadHighs from 'highs';
import type { Affine } from '../../../src/engine/policy/Affine.js';
import type { BlockCost } from '../../../src/engine/policy/CostModel.js';
import { costAt } from '../../../src/engine/policy/costAt.js';
import { PLACEMENT_VARIABLES, type TierName } from '../../../src/engine/policy/Placement.js';
import { placementProgram } from '../../../src/engine/policy/search/placementProgram.js';
import { solveLp, type LinearProgram } from '../../../src/engine/policy/search/solveLp.js';
import { leastSeconds, solvePlacement } from '../../../src/engine/policy/search/solvePlacement.js';

const highs = await loadHighs();

/** The program in the LP format, every number in full. */
function text({ objective, rows }: LinearProgram): string {
  const linear = (list: readonly number[]): string => list.map((value, j) => `${value < 0 ? '-' : '+'} ${Math.abs(value)} x${j}`).join(' ');
  return ['Minimize', ` obj: ${linear(objective)}`, 'Subject To', ...rows.map(({ coefficients, relation, bound }, i) => ` r${i}: ${linear(coefficients)} ${relation} ${bound}`), 'End'].join('\n');
}

function second(program: LinearProgram): { status: string; objective: number } {
  for (const presolve of ['off', 'on'] as const) {
    const solved = highs.solve(text(program), { presolve });
    if (solved.Status !== 'Unknown') return { status: solved.Status, objective: solved.ObjectiveValue };
  }
  return { status: 'Unknown', objective: NaN };
}

const seconds = fc.double({ min: -6, max: 2, noNaN: true }).map((power) => 10 ** power);
const bytes = fc.double({ min: 5, max: 13, noNaN: true }).map((power) => 10 ** power);
const affine = (value: fc.Arbitrary<number>): fc.Arbitrary<Affine> =>
  fc.record(Object.fromEntries([...PLACEMENT_VARIABLES, 'constant'].map((key) => [key, fc.oneof({ weight: 2, arbitrary: value }, fc.constant(0))])));
const block = fc.record({
  phases: fc.array(fc.record({ times: fc.integer({ min: 1, max: 10_000 }), bounds: fc.array(affine(seconds), { minLength: 1, maxLength: 6 }) }), { minLength: 1, maxLength: 3 }),
  memory: fc.array(fc.record({ tier: fc.constantFrom<TierName>('gpu', 'cpu', 'disk'), bytes: affine(bytes) }), { maxLength: 6 }),
  fixed: fc.constantFrom({}, { hn: 0 }, { wn: 0, cn: 0, hn: 0 }, { wg: 0, cg: 0, hg: 0 }),
}).map(({ phases, memory, fixed }): BlockCost => ({
  phases: phases.map((phase, i) => ({ ...phase, name: String(i), queues: {}, promptShare: 0 })),
  memory: memory.map((term) => ({ ...term, when: 'run' })),
  fixed, newTokens: 1, rows: 1, onceSeconds: 0,
}));
const usable = fc.record({ gpu: bytes, cpu: bytes, disk: bytes });

describe('placements against a second solver', () => {
  test('1,000 random blocks: the same outcome, the same time within a millionth', () => {
    const seen = { optimal: 0, infeasible: 0 };
    fc.assert(
      fc.property(block, usable, (cost, room) => {
        const ours = solvePlacement(cost, room);
        // The second solver gets the program at the scale of the answer: raw seconds and bytes are beyond any solver's tolerances.
        const scale = ours.status === 'optimal' ? ours.seconds : Math.max(1e-9, leastSeconds(cost));
        const theirs = second(placementProgram(cost, room, scale).program);
        if (ours.status === 'optimal') {
          seen.optimal++;
          expect(theirs.status).toBe('Optimal');
          expect(Math.abs(theirs.objective - 1)).toBeLessThan(1e-6);
          expect(costAt(cost, ours.placement).seconds).toBeCloseTo(ours.seconds, 12);
        } else {
          seen.infeasible++;
          expect([ours.status, theirs.status]).toEqual(['infeasible', 'Infeasible']);
        }
      }),
      { numRuns: 1000, seed: 6, endOnFailure: true },
    );
    expect(seen.optimal).toBeGreaterThan(200);
    expect(seen.infeasible).toBeGreaterThan(100);
  });
});

describe('solveLp', () => {
  const coefficient = fc.integer({ min: -3, max: 3 });
  const program = fc.integer({ min: 1, max: 4 }).chain((columns) => {
    const vector = fc.array(coefficient, { minLength: columns, maxLength: columns });
    return fc.record({
      objective: vector,
      rows: fc.array(fc.record({ coefficients: vector, relation: fc.constantFrom('<=' as const, '>=' as const, '=' as const), bound: fc.integer({ min: -4, max: 6 }) }), { minLength: 1, maxLength: 5 }),
    });
  });

  test('small programs of every kind: optimal, infeasible and unbounded are told apart', () => {
    const seen: Record<string, number> = {};
    fc.assert(
      fc.property(program, (lp) => {
        const ours = solveLp(lp);
        const theirs = second(lp);
        seen[ours.status] = (seen[ours.status] ?? 0) + 1;
        expect(ours.status).toBe(theirs.status.toLowerCase().replace('primal infeasible or unbounded', ours.status === 'optimal' ? 'other' : ours.status));
        if (ours.status === 'optimal') expect(ours.objective).toBeCloseTo(theirs.objective, 6);
      }),
      { numRuns: 500, seed: 6, endOnFailure: true },
    );
    for (const status of ['optimal', 'infeasible', 'unbounded']) expect(seen[status] ?? 0).toBeGreaterThan(20);
  });

  test('a degenerate vertex is named as such', () => {
    const rows = [{ coefficients: [1, 0], relation: '>=' as const, bound: 1 }, { coefficients: [0, 1], relation: '>=' as const, bound: 1 }];
    expect(solveLp({ objective: [1, 1], rows })).toMatchObject({ status: 'optimal', objective: 2, degenerate: false });
    const third = { coefficients: [1, 1], relation: '>=' as const, bound: 2 };
    expect(solveLp({ objective: [1, 1], rows: [...rows, third] })).toMatchObject({ status: 'optimal', objective: 2, degenerate: true });
  });
});
