import { expect, test } from '@jest/globals';
import type { MemoryTerm } from '../../../src/plan/CostModel.js';
import { requireKnownShape } from '../../../src/plan/knownShapes.js';
import { memoryTerms } from '../../../src/plan/model/memory.js';
import { HEAP_MARGIN_BYTES, PINNED_BYTES } from '../../../src/plan/reserves.js';
import { sizesOf, type Sizes } from '../../../src/plan/model/sizes.js';
import { parsePolicy } from '../../../src/plan/Policy.js';
import { settingOf } from '../../../src/plan/predict.js';
import { builtIn } from '../support/hardware.js';

const LIVE_ROWS = 40;

function planned(
  sharedPrefixTokens: number,
  cpuAttention: boolean,
  streams = false,
): { terms: readonly MemoryTerm[]; sizes: Sizes } {
  const onCpu = { gpu: 0, cpu: 1, disk: 0 };
  const policy = parsePolicy(
    {
      schedule: 'zigzag',
      batchSize: 20,
      batches: 2,
      weights: onCpu,
      cache: { gpu: 0, cpu: 0, disk: 1 },
      activations: onCpu,
      cpuAttention,
    },
    'test',
  );
  const { setting } = settingOf(
    {
      hardware: builtIn('flexgen-t4-measured'),
      shape: requireKnownShape('opt-1.3b'),
      workload: { promptTokens: 100, newTokens: 29, rows: 80, sharedPrefixTokens },
    },
    policy,
  );
  const sizes = sizesOf(setting);
  const terms = memoryTerms(setting, sizes, LIVE_ROWS, { streams, spills: true });
  return { terms, sizes };
}

const onDisk = (terms: readonly MemoryTerm[], tier: MemoryTerm['tier']): number =>
  terms.find((term) => term.tier === tier)?.bytes.cn ?? 0;

test('of a cache on disk that comes to a GPU what all rows begin with is in memory, beside the pages of each row', () => {
  const { terms, sizes } = planned(96, false);
  const alone = planned(0, false);
  const { rowPages, sharedPages, pageBytes } = sizes;
  expect([rowPages, sharedPages]).toEqual([4, 3]);
  expect(onDisk(terms, 'cpu') - onDisk(alone.terms, 'cpu')).toBe(3 * pageBytes);
  expect([onDisk(terms, 'disk'), onDisk(alone.terms, 'disk')]).toEqual([
    LIVE_ROWS * pageBytes,
    4 * LIVE_ROWS * pageBytes,
  ]);
});

test('what is pinned beside a GPU is counted, but for what a run takes of what nobody else needs', () => {
  const constantOf = ({ terms }: ReturnType<typeof planned>): number =>
    terms.find(({ tier }) => tier === 'cpu')?.bytes.constant ?? NaN;
  const [resident, streaming] = [planned(0, false), planned(0, false, true)];
  expect(constantOf(resident)).toBe(HEAP_MARGIN_BYTES + PINNED_BYTES + LIVE_ROWS * resident.sizes.pageBytes);
  expect(constantOf(streaming)).toBe(constantOf(resident));
});

test('where the processor attends rows share no page of it', () => {
  expect(onDisk(planned(96, true).terms, 'cpu')).toBe(onDisk(planned(0, true).terms, 'cpu'));
});
