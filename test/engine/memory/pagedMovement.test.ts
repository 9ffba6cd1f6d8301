import { describe, expect, test } from '@jest/globals';
import { pagedMovement, type PagedBytes } from '../../../src/engine/memory/pagedMovement.js';
import type { PageTable } from '../../../src/engine/grid/PageTable.js';
import type { PageLookup } from '../../../src/engine/memory/movement.js';

const BYTES: PagedBytes = {
  streamedBytes: [4096, 8192, 0],
  pageTokens: 4,
  diskPages: 2,
  pageSlotBytes: 12_288,
  windows: [0, 4, 0],
  tokenBytes: 1024,
  residentTokens: 2,
  tokensPerSquare: 8,
};
const tables: Record<number, PageTable> = {
  0: { entries: [1, -1, -2, 0], tail: 0 },
  1: { entries: [2, 3, 4], tail: -1 },
};
const pagesOf = (row: number): PageTable | undefined => tables[row];
const square = (layer: number, ...rows: [row: number, first: number, tokens: number][]) => ({
  batch: {
    pass: 1,
    slot: 0,
    rows: rows.map(([row, firstPosition, tokens]) => ({ row, firstPosition, tokens, head: 'none' as const })),
  },
  layer,
});
const read = (bytes: number) => [[{ queue: 'disk-read', from: 'disk', to: 'cpu', bytes }]];
const write = (bytes: number) => [[{ queue: 'disk-write', from: 'cpu', to: 'disk', bytes }]];

describe('pagedMovement', () => {
  const moves = pagedMovement(BYTES);

  test("loads what streams of a layer's weights, if anything does", () => {
    expect(moves.loadWeight(square(1))).toEqual(read(8192));
    expect(moves.loadWeight(square(2))).toEqual([]);
  });

  test('loads a mixture without the experts that few tokens are not expected to choose', () => {
    const experts = { count: 64, perToken: 4 };
    const mixture = pagedMovement({ ...BYTES, chosen: { experts, slots: 2, expertBytes: [4000, 6400, 0] } });
    // Of two batches of one token.
    const left = (60 / 64) ** 2;
    expect(mixture.loadWeight(square(1, [0, 12, 1]))).toEqual(read(8192 - Math.floor(left * 6400)));
    expect(mixture.loadWeight(square(1, [0, 0, 12]))).toEqual(read(8192));
    expect(mixture.loadWeight(square(2, [0, 12, 1]))).toEqual([]);
  });

  test('loads whole pages of the disk that are in sight, and stores those that are completed', () => {
    const last = square(0, [0, 12, 1], [1, 9, 1]);
    expect(moves.loadCache(last, pagesOf)).toEqual(read(2 * 12_288));
    expect(moves.storeCache(last, pagesOf)).toEqual([]);
    expect(moves.loadCache({ ...last, layer: 1 }, pagesOf)).toEqual(read(12_288)); // a window of 4
    expect(moves.storeCache(square(0, [0, 7, 5]), pagesOf)).toEqual(write(2 * 12_288));
  });

  test('moves hidden states beyond the resident ones, in whole blocks, between layers only', () => {
    const five = (layer: number) => square(layer, [1, 0, 5]);
    expect(moves.loadActivation(five(0))).toEqual([]);
    expect(moves.loadActivation(five(1))).toEqual(read(4096));
    expect(moves.storeActivation(five(1))).toEqual(write(4096));
    expect(moves.storeActivation(five(2))).toEqual([]);
    expect(pagedMovement({ ...BYTES, residentTokens: Infinity }).loadActivation(five(1))).toEqual([]);
  });

  describe('to a GPU', () => {
    const onGpu = pagedMovement({ ...BYTES, gpu: { fromDisk: [0, 3000, 0] } });
    const up = (bytes: number) => [{ queue: 'host-to-device', from: 'cpu', to: 'gpu', bytes }];
    const down = (bytes: number) => [{ queue: 'device-to-host', from: 'gpu', to: 'cpu', bytes }];

    test('all that is not there of a layer crosses the link, beside it what comes from disk', () => {
      expect(onGpu.loadWeight(square(0))).toEqual([up(4096)]);
      expect(onGpu.loadWeight(square(1))).toEqual([[{ ...up(8192)[0], hops: read(3000)[0] }]]);
      expect(onGpu.loadWeight(square(2))).toEqual([]);
    });

    test('of the cache only pages of the disk move, to the memory where the processor attends to them', () => {
      const last = square(0, [0, 12, 1], [1, 9, 1]);
      expect(onGpu.loadCache(last, pagesOf)).toEqual(moves.loadCache(last, pagesOf));
      expect(onGpu.storeCache(square(0, [0, 7, 5]), pagesOf)).toEqual(write(2 * 12_288));
    });

    test('or of the whole cache pages come to it, and those with new tokens go back; those of the disk all the way', () => {
      const fetching = pagedMovement({
        ...BYTES,
        gpu: { fromDisk: [] },
        fetch: { firstGpuPage: 4, pageBytes: 12_000 },
      });
      const last = square(0, [0, 12, 1], [1, 9, 1]);
      expect(fetching.loadCache(last, pagesOf)).toEqual([[{ ...up(5 * 12_000)[0], hops: read(2 * 12_288)[0] }]]);
      expect(fetching.storeCache(last, pagesOf)).toEqual([down(12_000)]);
      expect(fetching.loadCache(square(1, [0, 12, 1], [1, 9, 1]), pagesOf)).toEqual([
        [{ ...up(2 * 12_000)[0], hops: read(12_288)[0] }],
      ]);
      expect(fetching.storeCache(square(0, [0, 7, 5]), pagesOf)).toEqual([
        [{ ...down(2 * 12_000)[0], hops: write(2 * 12_288)[0] }],
      ]);
    });

    test('or of the first pages, while those behind are read and written for the processor', () => {
      const fetching = pagedMovement({
        ...BYTES,
        gpu: { fromDisk: [] },
        fetch: { firstGpuPage: 4, pageBytes: 12_000 },
      });
      const attending =
        (attendedPages: number): PageLookup =>
        (row) => {
          const table = pagesOf(row);
          return table && { ...table, attendedPages };
        };
      const last = (): ReturnType<typeof square> => square(0, [0, 12, 1]);
      const hop = read(2 * 12_288)[0];
      expect(fetching.loadCache(last(), pagesOf)).toEqual([[{ ...up(3 * 12_000)[0], hops: hop }]]);
      expect(fetching.loadCache(last(), attending(1))).toEqual([[{ ...up(12_000)[0], hops: hop }]]);
      expect(fetching.loadCache(last(), attending(0))).toEqual(read(2 * 12_288));
      expect(fetching.storeCache(square(0, [0, 7, 5]), attending(1))).toEqual(write(2 * 12_288));
    });

    test('hidden states that leave it cross the link whole, and those beyond the resident ones go to disk', () => {
      const five = square(1, [1, 0, 5]);
      expect(onGpu.loadActivation(five)).toEqual([[{ ...up(5 * 1024)[0], hops: read(4096)[0] }]]);
      expect(onGpu.storeActivation(five)).toEqual([[{ ...down(5 * 1024)[0], hops: write(4096)[0] }]]);
      const inMemory = pagedMovement({ ...BYTES, residentTokens: 8, gpu: { fromDisk: [0, 0, 0] } });
      expect(inMemory.loadActivation(five)).toEqual([up(5 * 1024)]);
      expect(
        pagedMovement({ ...BYTES, residentTokens: Infinity, gpu: { fromDisk: [0, 0, 0] } }).storeActivation(five),
      ).toEqual([]);
    });
  });
});
