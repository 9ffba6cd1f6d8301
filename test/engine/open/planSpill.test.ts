import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { planSpill } from '../../../src/engine/open/planSpill.js';
import { placePages } from '../../../src/engine/memory/placePages.js';

const GRID = { slots: 2, rowsPerSlot: 8, tokensPerSquare: 64, pageTokens: 32, rowTokens: 512, tokenBytes: 256 };

describe('planSpill', () => {
  test('takes nothing where everything stays in memory', () => {
    expect(planSpill({ ...GRID, cacheShare: 0, activationShare: 0 })).toEqual({
      pages: 0,
      pagesPerRow: 0,
      buffers: 0,
      bufferPages: 0,
      activations: undefined,
    });
  });

  test('all of the cache on disk leaves a page of each row in memory', () => {
    expect(planSpill({ ...GRID, cacheShare: 1, activationShare: 0 })).toMatchObject({
      pages: 16 * 15,
      pagesPerRow: 15,
      bufferPages: 8 * 15,
    });
  });

  test('pages that come to a GPU go through as many buffers as there are there', () => {
    expect(planSpill({ ...GRID, cacheShare: 0.5, activationShare: 0 }).buffers).toBe(3);
    expect(planSpill({ ...GRID, cacheShare: 0.5, activationShare: 0, cacheBuffers: 2 }).buffers).toBe(2);
    expect(planSpill({ ...GRID, cacheShare: 0, activationShare: 0, cacheBuffers: 2 }).buffers).toBe(0);
  });

  test('half of the hidden states', () => {
    expect(planSpill({ ...GRID, cacheShare: 0, activationShare: 0.5 }).activations).toEqual({
      stayingSlots: 0,
      residentTokens: 32,
      buffers: 3,
      bytes: 8192 * 2 * 4,
    });
  });

  test('of a GPU: those of some slots stay, and of the others what is not for the disk is in memory', () => {
    const of = (gpuActivationShare: number, activationShare: number, slots = 4) =>
      planSpill({ ...GRID, slots, cacheShare: 0, activationShare, gpuActivationShare }).activations;
    expect(of(1, 0)).toBeUndefined();
    expect(of(0.9, 0.1)).toBeUndefined();
    expect(of(0, 0)).toMatchObject({ stayingSlots: 0, residentTokens: 64, buffers: 3, bytes: 0 });
    expect(of(0.5, 0.25)).toMatchObject({ stayingSlots: 2, residentTokens: 32, buffers: 3, bytes: 8192 * 2 * 4 });
    expect(of(0.75, 0.25)).toMatchObject({ stayingSlots: 3, residentTokens: 0, buffers: 2 });
  });

  test('whatever the shares, the pages of any full square fit in one buffer, and those of all rows in the file', () => {
    fc.assert(
      fc.property(
        fc.double({ min: 0, max: 1, noNaN: true }),
        fc.integer({ min: 1, max: 2000 }),
        fc.integer({ min: 1, max: 3000 }),
        (cacheShare, rowTokens, positions) => {
          const { pages, pagesPerRow, bufferPages } = planSpill({
            ...GRID,
            rowTokens,
            cacheShare,
            activationShare: 0,
          });
          const { disk } = placePages(positions, {
            pageTokens: 32,
            diskShare: cacheShare,
            mostDiskPages: pagesPerRow,
          }).pages;
          expect(GRID.rowsPerSlot * disk).toBeLessThanOrEqual(bufferPages);
          expect(GRID.slots * GRID.rowsPerSlot * disk).toBeLessThanOrEqual(pages);
        },
      ),
    );
  });
});
