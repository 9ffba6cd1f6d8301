import { describe, expect, test } from '@jest/globals';
import { requireKnownShape } from '../../../src/plan/knownShapes.js';
import { shareOfExpertsRead, sharesOfLayerRead } from '../../../src/plan/model/chosenExperts.js';

const EXPERTS = { count: 128, perToken: 8 };

describe('experts that are read for so many tokens', () => {
  test('are those that are expected to be chosen, up to three quarters', () => {
    expect(shareOfExpertsRead(EXPERTS, 1)).toBeCloseTo(8 / 128, 12);
    expect(shareOfExpertsRead(EXPERTS, 4)).toBeCloseTo(1 - (120 / 128) ** 4, 12);
    expect(shareOfExpertsRead(EXPERTS, 16)).toBeCloseTo(1 - (120 / 128) ** 16, 12);
    expect(shareOfExpertsRead(EXPERTS, 21)).toBeLessThan(0.75);
    expect(shareOfExpertsRead(EXPERTS, 22)).toBe(1);
    expect(shareOfExpertsRead({ count: 8, perToken: 8 }, 1)).toBe(1);
  });
  test('leave the rest of a layer to be read always, and a dense layer whole', () => {
    const mixture = requireKnownShape('mixtral-8x7b');
    const share = sharesOfLayerRead(mixture, 1).all;
    expect(share).toBeGreaterThan(2 / 8);
    expect(share).toBeLessThan(2 / 8 + 0.05);
    expect(sharesOfLayerRead(mixture, 1).byTasks).toBeCloseTo((2 / 8) * ((share - 1) / (2 / 8 - 1)), 12);
    expect(sharesOfLayerRead(mixture, 64)).toEqual({ all: 1, byTasks: 0 });
    expect(sharesOfLayerRead({ ...mixture, experts: undefined }, 1)).toEqual({ all: 1, byTasks: 0 });
  });
});
