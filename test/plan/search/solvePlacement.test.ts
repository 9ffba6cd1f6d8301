import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import loadHighs, { type LegacyHighs } from 'highs';
import { costAt } from '../../../src/plan/CostModel.js';
import { flexgenModel } from '../../../src/plan/papers/flexgen/flexgenModel.js';
import { knownShapeNames, requireKnownShape } from '../../../src/plan/knownShapes.js';
import { lmOffloadModel } from '../../../src/plan/papers/lmOffload/lmOffloadModel.js';
import { leastSeconds, placementProgram, solvePlacement } from '../../../src/plan/search/solvePlacement.js';
import { solveLp, type LinearProgram } from '../../../src/plan/search/solveLp.js';
import { spillwayModel } from '../../../src/plan/model/spillwayModel.js';
import { builtIn } from '../support/hardware.js';

// Its types describe the CommonJS build.
const highs = await (loadHighs as unknown as () => Promise<LegacyHighs>)();
const T4 = builtIn('flexgen-t4');

/** The program in the LP format, every number in full. */
function text({ objective, rows }: LinearProgram): string {
  const linear = (list: readonly number[]): string =>
    list.map((value, j) => `${value < 0 ? '-' : '+'} ${Math.abs(value)} x${j}`).join(' ');
  return [
    'Minimize',
    ` obj: ${linear(objective)}`,
    'Subject To',
    ...rows.map(({ coefficients, relation, bound }, i) => ` r${i}: ${linear(coefficients)} ${relation} ${bound}`),
    'End',
  ].join('\n');
}

function second(program: LinearProgram): { status: string; objective: number } {
  for (const presolve of ['off', 'on'] as const) {
    const solved = highs.solve(text(program), { presolve });
    if (solved.Status !== 'Unknown') return { status: solved.Status, objective: solved.ObjectiveValue };
  }
  return { status: 'Unknown', objective: NaN };
}

/** A factor from 1/30 to 30, evenly in its logarithm. */
const factor = fc.double({ min: -1.5, max: 1.5, noNaN: true }).map((power) => 10 ** power);
const scaledBy = <T extends object>(of: T, factors: readonly number[]): T =>
  Object.fromEntries(
    Object.entries(of).map(([key, value]: [string, unknown], i) => [
      key,
      typeof value === 'number' && key.includes('PerSecond') ? value * (factors[i % factors.length] ?? 1) : value,
    ]),
  ) as T;

/** Blocks of all three models, on machines that are like no machine. */
const block = fc
  .record({
    model: fc.constantFrom(flexgenModel, lmOffloadModel, spillwayModel),
    shape: fc.constantFrom(...knownShapeNames),
    factors: fc.array(factor, { minLength: 7, maxLength: 7 }),
    memory: fc.record({
      gpuBytes: factor.map((each) => each * 16e9),
      cpuBytes: factor.map((each) => each * 200e9),
      diskBytes: factor.map((each) => each * 1e12),
    }),
    workload: fc.record({
      promptTokens: fc.integer({ min: 1, max: 1500 }),
      newTokens: fc.integer({ min: 2, max: 200 }),
    }),
    batchSize: fc.integer({ min: 1, max: 256 }),
    batches: fc.integer({ min: 1, max: 20 }),
    compress: fc.constantFrom('none' as const, '4bit' as const),
    cpuAttention: fc.boolean(),
    which: fc.nat(3),
  })
  .map(({ model, shape, factors, memory, workload, batchSize, batches, compress, cpuAttention, which }) => {
    const base = builtIn(model.name === 'lm-offload' ? 'lm-offload-a100' : 'flexgen-t4');
    const hardware = {
      ...base,
      memory,
      links: scaledBy({ ...T4.links, ...base.links }, factors),
      ...(base.flexgen && { flexgen: scaledBy(base.flexgen, factors) }),
      ...(base.lmOffload && { lmOffload: scaledBy(base.lmOffload, factors) }),
      cpu: { ...base.cpu, attention: scaledBy(base.cpu.attention, factors) },
    };
    const blocks = model.blocks({
      hardware,
      shape: requireKnownShape(shape),
      workload,
      block: {
        schedule: 'zigzag',
        batchSize,
        batches,
        compressWeights: compress,
        compressCache: compress,
        cpuAttention,
      },
    });
    const cost = blocks[which % blocks.length];
    if (cost === undefined) throw new Error('a model without costs');
    return { cost, room: { gpu: memory.gpuBytes, cpu: memory.cpuBytes, disk: memory.diskBytes } };
  });

describe('placements against a second solver', () => {
  test('1,000 random blocks: the same outcome, the same time within a millionth', () => {
    const seen = { optimal: 0, infeasible: 0 };
    fc.assert(
      fc.property(block, ({ cost, room }) => {
        const ours = solvePlacement(cost, room);
        // The second solver gets the program at the scale of the answer: raw seconds and bytes are beyond any solver's
        // tolerances.
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
      rows: fc.array(
        fc.record({
          coefficients: vector,
          relation: fc.constantFrom('<=' as const, '>=' as const, '=' as const),
          bound: fc.integer({ min: -4, max: 6 }),
        }),
        { minLength: 1, maxLength: 5 },
      ),
    });
  });

  test('small programs of every kind: optimal, infeasible and unbounded are told apart', () => {
    const seen: Record<string, number> = {};
    fc.assert(
      fc.property(program, (lp) => {
        const ours = solveLp(lp);
        const theirs = second(lp);
        seen[ours.status] = (seen[ours.status] ?? 0) + 1;
        expect(ours.status).toBe(
          theirs.status
            .toLowerCase()
            .replace('primal infeasible or unbounded', ours.status === 'optimal' ? 'other' : ours.status),
        );
        if (ours.status === 'optimal') expect(ours.objective).toBeCloseTo(theirs.objective, 6);
      }),
      { numRuns: 500, seed: 6, endOnFailure: true },
    );
    for (const status of ['optimal', 'infeasible', 'unbounded']) expect(seen[status] ?? 0).toBeGreaterThan(20);
  });

  test('a degenerate vertex is named as such', () => {
    const rows = [
      { coefficients: [1, 0], relation: '>=' as const, bound: 1 },
      { coefficients: [0, 1], relation: '>=' as const, bound: 1 },
    ];
    expect(solveLp({ objective: [1, 1], rows })).toMatchObject({ status: 'optimal', objective: 2, degenerate: false });
    const third = { coefficients: [1, 1], relation: '>=' as const, bound: 2 };
    expect(solveLp({ objective: [1, 1], rows: [...rows, third] })).toMatchObject({
      status: 'optimal',
      objective: 2,
      degenerate: true,
    });
  });
});
