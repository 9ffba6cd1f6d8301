import { expect, test } from '@jest/globals';
import { pipelineSeconds } from '../../../src/plan/pipeline/pipelineSeconds.js';

const near = { bytesPerSecond: 1e9, latencySeconds: 0 };
const of = (stages: readonly number[], hiddenBytes = 0, apart = stages): Parameters<typeof pipelineSeconds>[0] => [
  { sweeps: 100, hiddenBytes, stages, apart, promptShare: 0.25, next: new Map() },
];

test('the slowest stage, the slowest link, or the way round, whichever is longest; and filling it once', () => {
  const fast = pipelineSeconds(of([2, 3, 1]), [near, near, near], 4);
  expect(fast).toEqual({
    wall: 100 * 4 * 3 + 3,
    prefill: (100 * 4 * 3 + 3) / 4,
    busy: [800, 1200, 400],
    links: [0, 0, 0],
    waiting: 0,
  });
  const slowLink = pipelineSeconds(of([2, 3, 1], 5e9), [near, near, near], 4);
  expect(slowLink).toMatchObject({ wall: 100 * 4 * 5 + 11, links: [2000, 2000, 0] });
  const far = pipelineSeconds(of([2, 3, 1]), [near, { ...near, latencySeconds: 10 }, near], 4);
  expect(far).toMatchObject({ wall: 100 * 16 + 3, waiting: 400 });
  // One of them in flight: the sum.
  expect(pipelineSeconds(of([2, 3, 1]), [near, near, near], 1)).toMatchObject({ wall: 600, waiting: 300 });
  // Of two the second one is through after the first, which waits for nobody.
  expect(pipelineSeconds(of([2, 3, 1]), [near, near, near], 2)).toMatchObject({ wall: 600 + 3, waiting: 0 });
});

test('where micro-batches wait for a stage it takes what it takes where they come directly one behind the other', () => {
  const links = [near, near];
  const at = (microBatches: number): ReturnType<typeof pipelineSeconds> =>
    pipelineSeconds(of([3, 3], 0, [2, 2]), links, microBatches);
  // Two of two stages never wait; eight do.
  expect(at(2)).toMatchObject({ wall: 100 * 6 + 3, busy: [600, 600] });
  expect(at(8)).toMatchObject({ wall: 100 * 8 * 2 + 4, busy: [1600, 1600], waiting: 0 });
  // With three the next one comes too late for some of it.
  expect(at(3).wall).toBeGreaterThan(100 * 3 * 2);
  expect(at(3).wall).toBeLessThan(100 * 3 * 3);
});

test('prompts fill the pipeline, new tokens find it full', () => {
  const [prompts] = of([2, 3, 1]);
  const [tokens] = of([0.2, 0.3, 0.1]);
  if (!prompts || !tokens) throw new Error('no sweeps');
  const both = [
    { ...prompts, sweeps: 1, promptShare: 1 },
    { ...tokens, sweeps: 31, promptShare: 0 },
  ];
  const { wall, prefill } = pipelineSeconds(both, [near, near, near], 4);
  expect(prefill).toBeCloseTo(4 * 3 + 3, 9);
  expect(wall - prefill).toBeCloseTo(31 * 4 * 0.3, 9);
});

test('prompts of every further block of rows fill it anew, but for what new tokens had filled', () => {
  const [prompts] = of([2, 3, 1]);
  const [tokens] = of([0.2, 0.3, 0.1]);
  if (!prompts || !tokens) throw new Error('no sweeps');
  const blocks = [
    { ...prompts, sweeps: 5, promptShare: 1, next: new Map([[1, 5]]) },
    { ...tokens, sweeps: 5 * 31, promptShare: 0, next: new Map([[0, 4]]) },
  ];
  const full = pipelineSeconds(blocks, [near, near, near], 4);
  expect(full.prefill).toBeCloseTo(5 * 4 * 3 + 3 + 4 * (3 - 0.3), 9);
  expect(full.wall - full.prefill).toBeCloseTo(5 * 31 * 4 * 0.3, 9);
  // Those that wait for each other's hidden states anyway have time for it.
  const far = { ...near, latencySeconds: 10 };
  expect(pipelineSeconds(blocks, [near, far, near], 4).prefill).toBeCloseTo(5 * 16 + 3, 9);
});
