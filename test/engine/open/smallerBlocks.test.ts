import { describe, expect, test } from '@jest/globals';
import { smallerBlocks } from '../../../src/engine/open/smallerBlocks.js';
import type { EngineOptions } from '../../../src/EngineOptions.js';

const planned: EngineOptions = { model: 'm', batchSize: 200, batches: 4, weights: { cpu: 0.5, disk: 0.5 } };
const blocks = (given: Partial<EngineOptions>, searches = false): Partial<EngineOptions>[] =>
  [...smallerBlocks(planned, { model: 'm', ...given }, searches)].map(({ model: _, ...rest }) => rest);

describe('the blocks that are tried where memory is scarce', () => {
  test('begin with the plan, and go from the usual block down to one row', () => {
    expect(blocks({})).toEqual([
      { batchSize: 200, batches: 4, weights: { cpu: 0.5, disk: 0.5 } },
      {},
      { tokensPerSquare: 128 },
      { tokensPerSquare: 48 },
      { tokensPerSquare: 16 },
      { tokensPerSquare: 16, batchSize: 1, batches: 1 },
    ]);
  });

  test('keep what the caller has said: a row of a square needs a token of it', () => {
    for (const block of blocks({ batchSize: 100, schedule: 'row' }).slice(1))
      expect(block).toMatchObject({ batchSize: 100, schedule: 'row' });
    expect(blocks({ batchSize: 100 }).map(({ tokensPerSquare }) => tokensPerSquare)).toEqual([
      undefined,
      undefined,
      128,
      100,
      100,
    ]);
    expect(blocks({ batchSize: 8, batches: 2 }).at(-1)).toEqual({ batchSize: 8, batches: 2, tokensPerSquare: 16 });
    expect(blocks({ batchSize: 300, batches: 2 }).at(-1)).toEqual({ batchSize: 300, batches: 2, tokensPerSquare: 300 });
    expect(blocks({ tokensPerSquare: 512 }).at(-1)).toEqual({ batchSize: 1, batches: 1, tokensPerSquare: 512 });
  });

  test('end with what a search may do besides, where it is left open', () => {
    const [cacheOnDisk, compressed] = blocks({ compressCache: 'auto', compressWeights: '8bit' }, true).slice(-2);
    expect(cacheOnDisk).toMatchObject({ cache: { cpu: 0, disk: 1 }, compressCache: 'none', compressWeights: '8bit' });
    expect(compressed).toMatchObject({ cache: { cpu: 0, disk: 1 }, compressCache: '4bit', compressWeights: '8bit' });
    for (const block of blocks({ weights: { cpu: 1, disk: 0 } }, true)) expect(block.cache).toBeUndefined();
  });

  test('are the planned one for engines that have to agree, and fewer of its batches where nobody has said how many', () => {
    const layers = { first: 0, count: 1 };
    expect(blocks({ layers }).map(({ batches }) => batches)).toEqual([4, 3, 2, 1]);
    expect(blocks({ layers, batches: 2 })).toHaveLength(1);
  });
});
