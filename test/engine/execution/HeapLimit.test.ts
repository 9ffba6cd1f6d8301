import { describe, expect, test } from '@jest/globals';
import { execFile } from 'node:child_process';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { HeapLimit } from '../../../src/engine/execution/HeapLimit.js';
import { built } from '../../jobs/support/built.js';

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
    expect(heap.collections).toBeLessThanOrEqual(6);
    heap.used = 20 * MIB;
    heap.garbage = 110 * MIB;
    limit.check();
    heap.garbage = 80 * MIB;
    limit.check();
    expect(heap.garbage).toBe(0);
  });

  test('passes the limit by little where what is in use is just below it', () => {
    const heap = new Pretended(98 * MIB);
    const limit = new HeapLimit(100 * MIB, heap);
    let peak = 0;
    for (let step = 0; step < 1000; step++) {
      heap.garbage += MIB / 4;
      limit.check();
      peak = Math.max(peak, heap.takenBytes());
    }
    expect(peak).toBeLessThanOrEqual(101 * MIB);
  });

  test('gives memory of a process back that V8 would have kept', async () => {
    // In a process of its own: how much of a heap can be given back depends on all that has been there.
    const program = `
      import { heapBytes, HeapLimit } from ${JSON.stringify(pathToFileURL(built('engine/execution/HeapLimit.js')).href)};
      let garbage = Array.from({ length: 1_000_000 }, (_, at) => ({ at }));
      const before = heapBytes();
      garbage = undefined;
      const limit = new HeapLimit(before - 20 * 2 ** 20).start();
      for (let tries = 0; tries < 3000 && heapBytes() > before - 20 * 2 ** 20; tries++)
        await new Promise((resolve) => setTimeout(resolve, 20));
      limit.stop();
      console.log(JSON.stringify({ freed: before - heapBytes(), exposed: 'gc' in globalThis }));`;
    const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', program]);
    const { freed, exposed } = JSON.parse(stdout) as { freed: number; exposed: boolean };
    expect(freed).toBeGreaterThanOrEqual(20 * MIB);
    expect(exposed).toBe(false);
  });
});
