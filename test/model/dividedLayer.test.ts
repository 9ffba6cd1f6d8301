import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { UsageError } from '../../src/errors/UsageError.js';
import { columnsOfShare, headsOfShare, type HeadShare, type Range } from '../../src/model/dividedLayer.js';

const BLOCKS = [1, 32, 256];
const shapes = fc.record({
  kvHeads: fc.integer({ min: 1, max: 16 }),
  group: fc.integer({ min: 1, max: 12 }),
  headDim: fc.constantFrom(16, 32, 64, 80, 96, 128, 256),
  block: fc.constantFrom(...BLOCKS),
  of: fc.integer({ min: 2, max: 16 }),
});

function sharesOf(heads: number, kvHeads: number, headDim: number, block: number, of: number): HeadShare[] {
  return Array.from({ length: of }, (_, index) => headsOfShare({ heads, kvHeads, headDim }, block, { index, of }));
}

const endOf = ({ first, count }: Range): number => first + count;

describe('headsOfShare', () => {
  test('each query head is in one share, with the head of keys and values that it reads', () => {
    let divided = 0;
    fc.assert(
      fc.property(shapes, ({ kvHeads, group, headDim, block, of }) => {
        const heads = kvHeads * group;
        fc.pre((heads * headDim) % block === 0);
        let shares: HeadShare[];
        try {
          shares = sharesOf(heads, kvHeads, headDim, block, of);
        } catch (error) {
          expect(error).toBeInstanceOf(UsageError);
          return;
        }
        divided++;
        let [next, nextKey] = [0, 0];
        for (const { queryHeads, keyHeads } of shares) {
          expect(queryHeads.first).toBe(next);
          expect(queryHeads.count).toBeGreaterThan(0);
          expect((queryHeads.first * headDim) % block).toBe(0);
          next = endOf(queryHeads);
          // Heads in groups of one size, as attention computes them.
          const each = queryHeads.count / keyHeads.count;
          for (let head = 0; head < queryHeads.count; head++)
            expect(Math.floor((queryHeads.first + head) / group)).toBe(keyHeads.first + Math.floor(head / each));
          expect([nextKey, nextKey - 1]).toContain(keyHeads.first);
          nextKey = endOf(keyHeads);
          if (block === 1) expect(keyHeads.count).toBeLessThanOrEqual(Math.ceil(kvHeads / of));
        }
        expect([next, nextKey]).toEqual([heads, kvHeads]);
      }),
    );
    expect(divided).toBeGreaterThan(30);
  });

  test.each([
    ['SmolLM2, Q4_1', 9, 3, 64, 32],
    ['a multiquery model, Q8_0', 71, 1, 64, 32],
    ['a multiquery model, Q4_K', 8, 1, 256, 256],
    ['Llama 3.2 1B, Q4_K', 32, 8, 64, 256],
    ['Llama 3 8B, Q4_K', 32, 8, 128, 256],
    ['Qwen 2.5 1.5B, Q4_K', 12, 2, 128, 256],
  ])('%s divides over 2, 3 and 4 engines', (_, heads, kvHeads, headDim, block) => {
    for (const engines of [2, 3, 4]) {
      const counts = sharesOf(heads, kvHeads, headDim, block, engines).map(({ keyHeads }) => keyHeads.count);
      expect(Math.max(...counts)).toBe(Math.ceil(kvHeads / engines));
    }
  });

  test('the first shares, which do more, have the fewest', () => {
    expect(sharesOf(32, 8, 64, 256, 3).map(({ keyHeads }) => keyHeads)).toEqual([
      { first: 0, count: 2 },
      { first: 2, count: 3 },
      { first: 5, count: 3 },
    ]);
    expect(sharesOf(9, 3, 64, 32, 4).map(({ queryHeads, keyHeads }) => [queryHeads.count, keyHeads.first])).toEqual([
      [3, 0],
      [3, 1],
      [1, 2],
      [2, 2],
    ]);
  });

  test('blocks that span heads of keys and values stay whole', () => {
    expect(sharesOf(32, 32, 64, 256, 3).map(({ keyHeads }) => keyHeads.count)).toEqual([8, 12, 12]);
    expect(() => sharesOf(32, 32, 80, 256, 3)).toThrow(/32 heads of 80 .* in whole blocks of 256/);
    // As plans ask, which know one type of all weights: no head is left out.
    expect(() => sharesOf(10, 5, 64, 256, 2)).toThrow(/10 heads of 64 .* in whole blocks of 256/);
  });
});

describe('columnsOfShare', () => {
  test('all columns are in one share each, blocks whole', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 300 }),
        fc.constantFrom(...BLOCKS),
        fc.integer({ min: 2, max: 16 }),
        (blocks, block, of) => {
          fc.pre(blocks >= of);
          let next = 0;
          const counts = Array.from({ length: of }, (_, index) => {
            const { first, count } = columnsOfShare(blocks * block, block, { index, of });
            expect([first, count % block]).toEqual([next, 0]);
            next = first + count;
            return count;
          });
          expect(next).toBe(blocks * block);
          expect(Math.max(...counts) - Math.min(...counts)).toBeLessThan(2 * Math.max(block, 32));
        },
      ),
    );
  });

  test('an even division is taken as it is; another goes by panels', () => {
    const counts = (columns: number, of: number): number[] =>
      Array.from({ length: of }, (_, index) => columnsOfShare(columns, 1, { index, of }).count);
    expect(counts(96, 2)).toEqual([48, 48]);
    expect(counts(1536, 5)).toEqual([288, 320, 288, 320, 320]);
    expect(counts(100, 3)).toEqual([32, 32, 36]);
  });
});
