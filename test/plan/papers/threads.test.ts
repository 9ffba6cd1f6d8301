import { expect, test } from '@jest/globals';
import { ATTENTION_GRAPH, kahnLevels } from '../../../src/plan/papers/kahnLevels.js';
import { splitThreads, type ThreadedWork } from '../../../src/plan/papers/splitThreads.js';

const WORK: ThreadedWork = {
  graph: ATTENTION_GRAPH,
  // Faster with threads up to eight, which is where memory bandwidth ends it.
  operationSeconds: (_, threads) => 1 / Math.min(threads, 8),
  transfers: {
    load_weight: { bytes: 8e9, bytesPerSecond: 4e9 },
    load_activation: { bytes: 1e9, bytesPerSecond: 4e9 },
    store_activation: { bytes: 1e9, bytesPerSecond: 4e9 },
    store_cache: { bytes: 0, bytesPerSecond: 4e9 },
  },
};

test('levels: what can start together, in order; cycles and unknown names are refused', () => {
  expect(kahnLevels(ATTENTION_GRAPH)).toEqual([
    ['query', 'key', 'value'],
    ['appendKey', 'appendValue'],
    ['scores'],
    ['softmax'],
    ['weighted'],
    ['output'],
  ]);
  expect(kahnLevels({})).toEqual([]);
  expect(() => kahnLevels({ a: ['b'], b: ['a'] })).toThrow('wait for each other: a, b');
  expect(() => kahnLevels({ a: ['c'] })).toThrow('waits for c, which is none');
});

test.each([1, 2, 16, 64])(
  'splits of %i threads never hand out more than there are, and leave some to transfers',
  (threads) => {
    const splits = splitThreads(threads, WORK);
    expect(splits.length).toBeGreaterThan(0);
    for (const { interOp, intraOp, transfers } of splits) {
      const moving = Object.values(transfers).reduce((sum, each) => sum + each, 0);
      expect(interOp).toBeLessThanOrEqual(3);
      expect(interOp * intraOp + moving).toBeLessThanOrEqual(threads);
      if (threads > 1) expect(moving).toBeGreaterThan(0);
    }
    expect(splits.map(({ seconds }) => seconds)).toEqual(splits.map(({ seconds }) => seconds).sort((a, b) => a - b));
  },
);

test('with 64 threads operations get no more than help, and the largest transfer most of what is left', () => {
  const [best] = splitThreads(64, WORK);
  expect(best).toMatchObject({ interOp: 3, intraOp: 8 });
  expect(best?.transfers.load_weight).toBeGreaterThan(best?.transfers.load_activation ?? Infinity);
  expect(() => splitThreads(0, WORK)).toThrow('threads: found 0');
});
