import { describe, expect, test } from '@jest/globals';
import { cpus } from 'node:os';
import { residentPeakBytes } from '../../../src/engine/execution/residentPeakBytes.js';

/**
 * By how much two looks at once may differ: each processor counts so many pages, of files, of others and of shared
 * memory, by itself before it adds them up.
 */
const COUNTED_APART_BYTES = 3 * cpus().length * Math.max(32, 2 * cpus().length) * 4096;

describe('residentPeakBytes', () => {
  test("is the kernel's high-water mark of this process alone", () => {
    expect(
      residentPeakBytes(() => 'Name:\tnode\nVmPeak:\t  999999 kB\nVmHWM:\t   51234 kB\nVmRSS:\t   40000 kB\n'),
    ).toBe(51_234 * 1024);
  });

  test('is what getrusage says where there is no such mark', () => {
    const before = process.resourceUsage().maxRSS * 1024 - COUNTED_APART_BYTES;
    expect(residentPeakBytes(() => 'Name:\tnode\n')).toBeGreaterThanOrEqual(before);
    expect(
      residentPeakBytes(() => {
        throw new Error('ENOENT');
      }),
    ).toBeGreaterThanOrEqual(before);
  });

  test('of this process lies between what it has now and all that getrusage counts', () => {
    const pages = Buffer.alloc(32 * 2 ** 20, 1);
    const peak = residentPeakBytes();
    expect(pages[pages.length - 1]).toBe(1);
    expect(peak).toBeGreaterThan(pages.length);
    expect(peak).toBeLessThanOrEqual(process.resourceUsage().maxRSS * 1024 + 2 ** 20 + COUNTED_APART_BYTES);
  });
});
