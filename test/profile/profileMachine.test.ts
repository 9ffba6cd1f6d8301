import { describe, expect, test } from '@jest/globals';
import type { MachineFigure } from '../../src/bindings/Profile.js';
import { withinQuota } from '../../src/profile/profileMachine.js';

const figure = (what: MachineFigure['what'], threads: number): MachineFigure => ({
  what,
  threads,
  perSecond: 100,
  kind: '',
  instructionSet: '',
  tokens: 0,
  inputs: 0,
  groupHeads: 0,
  requestBytes: 0,
  depth: 0,
  spread: 0.125,
  samples: 9,
});

describe('processor time that a cgroup bounds', () => {
  const measured = {
    figures: [figure('matmul', 1), figure('matmul', 2), figure('disk-read', 0)],
    leftOut: [{ what: 'disk', reason: 'none' }],
  };
  const rates = (processorSeconds: number): readonly number[] =>
    withinQuota(measured, { processorSeconds }).figures.map(({ perSecond }) => perSecond);

  test('is what threads have together; the disk and a GPU have no threads', () => {
    expect(rates(0.45)).toEqual([45, 22.5, 100]);
    expect(rates(1.5)).toEqual([100, 75, 100]);
  });

  test('changes nothing where it is no less than the threads', () => {
    expect(withinQuota(measured, { processorSeconds: 2 })).toEqual(measured);
    expect(rates(64)).toEqual([100, 100, 100]);
  });
});
