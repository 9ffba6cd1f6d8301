import { expect, test } from '@jest/globals';
import { planPipeline } from '../src/plan/pipeline/planPipeline.js';
import { simulatePipeline } from '../src/simulatePipeline.js';
import { faster, machine, request, scarce } from './plan/support/machines.js';

// Queues that are about as busy wait for each other, as was measured; those that are simulated do so less.
test.each([
  ['two alike', [machine('a'), machine('b')], 1.12],
  ['four alike', ['a', 'b', 'c', 'd'].map((name) => machine(name)), 1.12],
  ['unequal ones', [machine('a', faster(2)), machine('b'), machine('c', faster(3))], 1.12],
  ['layers that stream', [machine('a', scarce), machine('b', scarce)], 1.35],
])(
  'the closed form is what simulated engines come to, at once and in turn: %s',
  async (_, machines, most) => {
    const workload = { promptTokens: 32, newTokens: 24, rows: 24 };
    const given = request(machines, { workload, allow: { batchSize: 2 } });
    const plan = planPipeline(given);
    const simulated = await simulatePipeline(given, plan);
    expect(simulated.tokensPerSecond / plan.tokensPerSecond).toBeGreaterThan(0.88);
    expect(simulated.tokensPerSecond / plan.tokensPerSecond).toBeLessThan(most);
    simulated.idleShares.forEach((idle, stage) => {
      expect(Math.abs(idle - (plan.stages[stage]?.idleShare ?? NaN))).toBeLessThan(most - 1);
    });
    const inTurn = await simulatePipeline(given, plan, { microBatches: 1 });
    expect(inTurn.tokensPerSecond / plan.inTurnTokensPerSecond).toBeGreaterThan(0.88);
    expect(inTurn.tokensPerSecond / plan.inTurnTokensPerSecond).toBeLessThan(Math.max(1.2, most));
  },
  120_000,
);

test('more rows than a simulation goes through in a minute are refused', async () => {
  const given = request([machine('a'), machine('b')]);
  await expect(simulatePipeline(given, { ...planPipeline(given), rows: 1e6 })).rejects.toThrow(
    /simulating 1000000 rows would take about \d+ million squares, expected at most 1 million: give fewer rows/,
  );
});
