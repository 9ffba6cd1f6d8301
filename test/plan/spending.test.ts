import { describe, expect, test } from '@jest/globals';
import { parseHardware } from '../../src/plan/HardwareProfile.js';
import { planCurves } from '../../src/plan/document/planCurves.js';
import { planDocument } from '../../src/plan/document/planDocument.js';
import { requireKnownShape } from '../../src/plan/knownShapes.js';
import type { HardwareProfile } from '../../src/plan/HardwareProfile.js';
import { planPipeline } from '../../src/plan/pipeline/planPipeline.js';
import { planPrompts } from '../../src/plan/pipeline/planPrompts.js';
import { planTensorParallel } from '../../src/plan/pipeline/planTensorParallel.js';
import { ratesTogether, spendingMeter, spendingOf, spendingTogether } from '../../src/plan/spending.js';
import { CPU_MACHINE } from './support/hardware.js';
import { machine, request as machinesRequest } from './support/machines.js';

const PRICED = { ...CPU_MACHINE, dollarsPerHour: 0.72, watts: 50 };
const request = {
  hardware: PRICED,
  shape: requireKnownShape('opt-125m'),
  workload: { promptTokens: 64, newTokens: 16, rows: 100 },
};

describe('what a job takes', () => {
  test('money by the hour and energy by the watts, each where it is known', () => {
    expect(spendingOf({}, 10, 100)).toBeUndefined();
    expect(spendingOf({ dollarsPerHour: 3.6 }, 1000, 500)).toEqual({ dollars: 1, tokensPerDollar: 500 });
    expect(spendingOf({ watts: 20 }, 10, 100)).toEqual({ joules: 200, joulesPerToken: 2, joulesFrom: 'hardware' });
    // What was counted goes before what a file says.
    expect(spendingOf({ watts: 20 }, 10, 0, 30)).toEqual({ joules: 30, joulesFrom: 'measured' });
  });

  test('of several jobs is the sum of what is known of all', () => {
    const one = spendingOf({ dollarsPerHour: 3.6, watts: 20 }, 10, 100);
    const two = spendingOf({ dollarsPerHour: 7.2 }, 10, 100, 50);
    expect(spendingTogether([one, two], 200)).toEqual({
      dollars: 0.03,
      tokensPerDollar: 200 / 0.03,
      joules: 250,
      joulesPerToken: 1.25,
      joulesFrom: 'hardware',
    });
    expect(spendingTogether([{ dollars: 1, joules: 2, joulesFrom: 'measured' }, { dollars: 1 }], 4)).toEqual({
      dollars: 2,
      tokensPerDollar: 2,
    });
    for (const other of [undefined, { joules: 1, joulesFrom: 'measured' as const }])
      expect(spendingTogether([other, { dollars: 1 }], 9)).toBeUndefined();
    expect(spendingTogether([undefined], 9)).toBeUndefined();
    expect(spendingTogether([], 9)).toBeUndefined();
  });
});

test('counters that stand still are none: the watts of the hardware file count', () => {
  expect(spendingMeter({ watts: 20 }, () => 7)(10, 100).spending).toEqual(spendingOf({ watts: 20 }, 10, 100));
  expect(spendingMeter({}, () => 7)(10, 100)).toEqual({});
});

test('machines that work together cost what they cost together, where all say', () => {
  const two = [{ dollarsPerHour: 1, watts: 5 }, { dollarsPerHour: 2 }];
  expect(ratesTogether(two)).toEqual({ dollarsPerHour: 3, watts: undefined });
});

describe.each([
  ['shares of each layer', planTensorParallel],
  ['prompts apart', planPrompts],
  ['layers divided', planPipeline],
])('a plan of two machines: %s', (_, plan) => {
  test('takes the money and the energy of both for as long as it lasts', () => {
    const of = (second: HardwareProfile): ReturnType<typeof plan> =>
      plan(machinesRequest([machine('a', PRICED), machine('b', second)]));
    const { wallSeconds, tokensPerSecond, spending } = of({ ...PRICED, dollarsPerHour: 1.28, watts: 70 });
    expect(spending?.dollars).toBeCloseTo((wallSeconds * 2) / 3600, 12);
    expect(spending?.tokensPerDollar).toBeCloseTo((tokensPerSecond * 3600) / 2, 3);
    expect(spending?.joulesPerToken).toBeCloseTo(120 / tokensPerSecond, 12);
    expect(of(CPU_MACHINE).spending).toBeUndefined();
  });
});

describe('a plan', () => {
  test('says what it takes where the hardware file has a price or watts', () => {
    const { predicted, runnersUp } = planDocument(request);
    const { wallSeconds, tokensPerSecond, spending } = predicted;
    expect(spending?.dollars).toBeCloseTo((wallSeconds * 0.72) / 3600, 12);
    expect(spending?.tokensPerDollar).toBeCloseTo((tokensPerSecond * 3600) / 0.72, 3);
    expect(spending?.joulesPerToken).toBeCloseTo(50 / tokensPerSecond, 12);
    expect(runnersUp.every((plan) => plan.predicted.spending !== undefined)).toBe(true);
    expect(planDocument({ ...request, hardware: CPU_MACHINE }).predicted).not.toHaveProperty('spending');
  });

  test('draws the cost of tokens over latency: money, or else energy', () => {
    const { policy, predicted } = planDocument(request);
    const { frontier, costs } = planCurves(request, policy, predicted);
    expect(costs).toMatchObject({ unit: 'dollars a million tokens', x: frontier.x, chosen: frontier.chosen });
    expect(costs?.own).toBeCloseTo((0.72 / 3600 / frontier.own) * 1e6, 9);
    const { dollarsPerHour: _price, ...powered } = PRICED;
    const energy = planCurves({ ...request, hardware: powered }, policy, predicted).costs;
    expect([energy?.unit, energy?.own]).toEqual(['joules a token', 50 / frontier.own]);
    expect(planCurves({ ...request, hardware: CPU_MACHINE }, policy, predicted)).not.toHaveProperty('costs');
  });

  test.each(['dollarsPerHour', 'watts'])('a hardware file with a %s that is none is refused by name', (field) => {
    for (const value of [0, -1, '5', null, Infinity, 1e10])
      expect(() => parseHardware({ ...CPU_MACHINE, [field]: value }, 'mine.json')).toThrow(field);
  });
});
