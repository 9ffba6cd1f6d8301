import { describe, expect, test } from '@jest/globals';
import type { NativeRuntime } from '../../../src/bindings/Addon.js';
import { loadWeights } from '../../../src/engine/store/loadWeights.js';

/** A runtime that reports twice while it loads, and gives up in between when it is closed. */
function loading(): { readonly runtime: NativeRuntime; readonly calls: string[] } {
  const calls: string[] = [];
  const runtime: Pick<NativeRuntime, 'bytes' | 'load' | 'close'> = {
    bytes: { weights: 10 } as NativeRuntime['bytes'],
    load: async (onProgress) => {
      for (const bytes of [5, 10]) {
        await Promise.resolve();
        onProgress(bytes);
        if (calls.includes('closed')) throw Object.assign(new Error('cancelled'), { code: 'cancelled' });
      }
      calls.push('loaded');
    },
    close: () => {
      calls.push('closed');
      return Promise.resolve();
    },
  };
  return { runtime: runtime as NativeRuntime, calls };
}

describe('loadWeights', () => {
  test('tells how far it is', async () => {
    const { runtime, calls } = loading();
    const reports: number[][] = [];
    await loadWeights(runtime, undefined, { onLoad: (...report) => reports.push(report) });
    expect({ reports, calls }).toEqual({
      reports: [
        [5, 10],
        [10, 10],
      ],
      calls: ['loaded'],
    });
  });

  test('a signal ends it at the next report', async () => {
    const { runtime, calls } = loading();
    const controller = new AbortController();
    await expect(
      loadWeights(runtime, undefined, { signal: controller.signal, onLoad: () => controller.abort('enough') }),
    ).rejects.toMatchObject({ name: 'InterruptedError', cause: 'enough' });
    expect(calls).toEqual(['closed']);
  });

  test('what its report throws comes out', async () => {
    const { runtime, calls } = loading();
    await expect(
      loadWeights(runtime, undefined, {
        onLoad: () => {
          throw new RangeError('of the caller');
        },
      }),
    ).rejects.toThrow('of the caller');
    expect(calls).toEqual(['closed']);
  });
});
