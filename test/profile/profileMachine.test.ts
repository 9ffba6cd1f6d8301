import { describe, expect, test } from '@jest/globals';
import { loadAddon } from '../../src/bindings/loadAddon.js';
import { withinQuota } from '../../src/profile/profileMachine.js';
import { figure } from './support.js';

test('a thread for each core is measured beside all threads and one, where it is neither', async () => {
  const addon = loadAddon();
  const threadsOf = async (coreThreads: number): Promise<number[]> => {
    const { figures } = await addon.profile(
      {
        threads: 3,
        coreThreads,
        budget: 0.02,
        pageTokens: 32,
        weights: ['q4'],
        otherInstructionSets: false,
        speedOnly: false,
        memoryBytes: 2 ** 24,
      },
      () => true,
    );
    return [...new Set(figures.filter(({ what }) => what === 'matmul').map(({ threads }) => threads))];
  };
  expect(await threadsOf(2)).toEqual([3, 1, 2]);
  for (const coreThreads of [1, 3, 8]) expect(await threadsOf(coreThreads)).toEqual([3, 1]);
});

describe('processor time that a cgroup bounds', () => {
  const measured = {
    figures: [figure('matmul', 100, { threads: 1 }), figure('matmul', 100, { threads: 2 }), figure('disk-read', 100)],
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
