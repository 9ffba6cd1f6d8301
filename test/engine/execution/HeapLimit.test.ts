import { describe, expect, test } from '@jest/globals';
import { heapBytes, HeapLimit } from '../../../src/engine/execution/HeapLimit.js';

const MIB = 2 ** 20;

describe('a limit on the heap', () => {
  /** A heap of so much in use, and garbage beside it. */
  class Pretended {
    garbage = 0;
    collections = 0;
    constructor(public used: number) {}
    takenBytes(): number {
      return this.used + this.garbage;
    }
    collect(): void {
      this.collections++;
      this.garbage = 0;
    }
  }

  test('collects what comes to it, and nothing below', () => {
    const heap = new Pretended(50 * MIB);
    const limit = new HeapLimit(100 * MIB, heap);
    let peak = 0;
    for (let step = 0; step < 1000; step++) {
      heap.garbage += MIB;
      limit.check();
      peak = Math.max(peak, heap.takenBytes());
    }
    expect(peak).toBeLessThan(100 * MIB);
    expect(heap.collections).toBe(20);
  });

  test('does not collect over and over what is in use, and comes back to the limit afterwards', () => {
    const heap = new Pretended(120 * MIB);
    const limit = new HeapLimit(100 * MIB, heap);
    for (let step = 0; step < 1000; step++) {
      heap.garbage += MIB / 64;
      limit.check();
    }
    expect(heap.collections).toBeLessThanOrEqual(3);
    heap.used = 20 * MIB;
    heap.garbage = 110 * MIB;
    limit.check();
    heap.garbage = 80 * MIB;
    limit.check();
    expect(heap.garbage).toBe(0);
  });

  test('gives memory of this process back that V8 would have kept', async () => {
    const exposed = 'gc' in globalThis;
    let garbage: object[] | undefined = Array.from({ length: 1_000_000 }, (_, at) => ({ at }));
    const before = heapBytes();
    expect(garbage).toHaveLength(1_000_000);
    garbage = undefined;
    const limit = new HeapLimit(before - 20 * MIB).start();
    try {
      for (let tries = 0; tries < 100 && heapBytes() > before - 20 * MIB; tries++)
        await new Promise((resolve) => setTimeout(resolve, 20));
      expect(heapBytes()).toBeLessThanOrEqual(before - 20 * MIB);
    } finally {
      limit.stop();
    }
    // Another test of this process may have asked for it.
    expect('gc' in globalThis).toBe(exposed);
  });
});
