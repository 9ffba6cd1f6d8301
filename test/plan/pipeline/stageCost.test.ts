import { expect, test } from '@jest/globals';
import { COST_MODELS } from '../../../src/plan/costModels.js';
import { parsePolicy } from '../../../src/plan/Policy.js';
import { stageCost, type StageSetting } from '../../../src/plan/pipeline/stageCost.js';
import { CPU_MACHINE } from '../support/hardware.js';
import { request } from '../support/machines.js';

const { workload } = request([]);
const { headWeightBytes: _, ...tied } = request([]).shape;
const policy = parsePolicy({ schedule: 'diagonal', batchSize: 8, batches: 4, tokensPerSquare: 64 }, 'p.json');
/** Bytes of a stage of eight layers. */
const bytes = (more: Partial<StageSetting> = {}): number =>
  stageCost(
    COST_MODELS.spillway,
    {
      hardware: CPU_MACHINE,
      shape: tied,
      layers: 8,
      embeds: true,
      samples: true,
      workload,
      alone: workload,
      microBatches: 4,
      ...more,
    },
    policy,
  ).memoryBytes.cpu;
/** Hidden states of a full square of each batch. */
const SQUARES = 4 * 64 * tied.hiddenSize * 4;

test('a stage has room for hidden states that come and go, and five copies of sums that go round', () => {
  const bare = bytes({ embeds: false, samples: false });
  const globals = tied.globalWeightBytes;
  expect(bytes({ samples: false }) - bare).toBeCloseTo(globals - SQUARES, -3);
  expect(bytes({ sums: true }) - bytes()).toBe(5 * SQUARES);
});

test('where each attends to some rows there is room for all heads of these, on their way and when they are there', () => {
  const heads = { heads: 40, kvHeads: 4, headDim: 128 };
  const projected = 4 * 64 * (40 + 2 * 4) * 128 * 4;
  expect(bytes({ sums: true, allHeads: heads }) - bytes()).toBe(6 * projected);
  const narrow = { ...heads, heads: 4, kvHeads: 1 };
  expect(bytes({ sums: true, allHeads: narrow }) - bytes()).toBe(5 * SQUARES + 4 * 64 * 6 * 128 * 4);
});

test('embeddings are on the first stage and the head on the last one, but a tied one on both', () => {
  const behind = 1e8;
  const own = { ...tied, headWeightBytes: behind };
  const [first, last] = [{ samples: false }, { embeds: false }];
  expect(bytes({ ...first, shape: tied }) - bytes({ ...first, shape: own })).toBeCloseTo(behind, -3);
  expect(bytes({ ...last, shape: tied }) - bytes({ ...last, shape: own })).toBeCloseTo(
    tied.globalWeightBytes - behind,
    -3,
  );
  expect(bytes({ shape: own })).toBe(bytes());
});

test('a stage has room for the largest layers, of which all of its may be', () => {
  const largest = { ...tied, largestLayerWeightBytes: tied.layerWeightBytes * 1.1 };
  expect(bytes({ shape: largest }) - bytes()).toBeCloseTo(0.1 * 8 * tied.layerWeightBytes, -3);
});
