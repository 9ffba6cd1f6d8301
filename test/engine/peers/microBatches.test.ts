import { describe, expect, test } from '@jest/globals';
import { ALL_ON_CPU } from '../../../src/engine/memory/movement.js';
import { diagonalBlock, zigZagBlock } from '../../../src/engine/schedules/blockSchedules.js';
import { defaultPipeline } from '../../../src/operators/defaultPipeline.js';
import { runAndJudgePeers, type PeersSetup } from '../../support/simulatedPeers.js';

const LAYERS = 8;
const TOKENS = 40;
const SLOTS = 4;

/** A square takes a second; a row has so many tokens; all places are taken all the time. */
const setup: PeersSetup = {
  rows: Array.from({ length: SLOTS }, () => ({ promptTokens: 1, newTokens: TOKENS })),
  schedule: diagonalBlock(),
  placement: ALL_ON_CPU,
  pageTokens: 4,
  pages: 1000,
  counts: [LAYERS],
  window: 8,
  ahead: SLOTS,
  grid: { layers: LAYERS, slots: SLOTS, rowsPerSlot: 1, tokensPerSquare: 4 },
  pipeline: defaultPipeline,
  aheads: { weights: 1, cache: 1, activations: 1 },
  simulation: { duration: ({ part }) => (part === 'finish' ? 1 : 0) },
};
const PASS_SECONDS = SLOTS * LAYERS;

/** Virtual seconds of a pass, and the share of them in which each device computes. */
async function measured(given: Partial<PeersSetup>): Promise<{ readonly seconds: number; readonly busy: number[] }> {
  const peers = await runAndJudgePeers({ ...setup, ...given });
  const ends = peers.flatMap(({ events }) => events.map(({ timing }) => timing?.end ?? 0));
  const seconds = Math.max(...ends);
  const busy = peers.map(({ events }) =>
    events.reduce((sum, { task: { part }, timing }) => sum + (part && timing ? timing.end - timing.start : 0), 0),
  );
  return { seconds: seconds / TOKENS, busy: busy.map((each) => each / seconds) };
}

describe.each([diagonalBlock(), zigZagBlock()])('$name over several devices', (schedule) => {
  test.each([
    [2, [4, 4]],
    [4, [2, 2, 2, 2]],
  ])(
    '%d: a pass takes as long as the sum of them with one micro-batch, as long as one with as many as devices',
    async (devices, counts) => {
      const one = await measured({ schedule, counts, microBatches: 1 });
      // The devices overlap by what is left of a sweep when its first batch goes on.
      expect(one.seconds).toBeGreaterThan(0.55 * PASS_SECONDS);
      const full = await measured({ schedule, counts });
      // Beside filling and draining, once.
      expect(full.seconds).toBeLessThan((PASS_SECONDS / devices) * (1 + devices / TOKENS));
      for (const share of full.busy) expect(share).toBeGreaterThan(0.9);
    },
  );

  test('unequal devices: as long as the slowest one', async () => {
    const { seconds, busy } = await measured({ schedule, counts: [1, 5, 2] });
    expect(seconds).toBeLessThan(5 * SLOTS * 1.1);
    expect(busy[1]).toBeGreaterThan(0.95);
  });

  test('latency on the links costs nothing where there are more micro-batches than devices', async () => {
    const near = await measured({ schedule, counts: [4, 4], microBatches: 4 });
    const far = await measured({ schedule, counts: [4, 4], microBatches: 4, latencySeconds: 2 });
    expect(far.seconds).toBeLessThan(1.02 * near.seconds);
    const few = await measured({ schedule, counts: [4, 4], microBatches: 2, latencySeconds: 2 });
    expect(few.seconds).toBeGreaterThan(1.1 * near.seconds);
  });
});
