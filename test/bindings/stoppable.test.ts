import { describe, expect, test } from '@jest/globals';
import { stoppable } from '../../src/bindings/stoppable.js';
import { InterruptedError } from '../../src/errors/InterruptedError.js';
import { NativeError } from '../../src/errors/engineErrors.js';

/** Work of three steps, as the addon does it: cancelled once a report says no. */
async function work(onProgress: (step: number) => boolean): Promise<string> {
  for (let step = 1; step <= 3; step++) {
    await Promise.resolve();
    if (!onProgress(step)) throw Object.assign(new Error('cancelled'), { code: 'cancelled' });
  }
  return 'done';
}

describe('stoppable', () => {
  test('tells of each step, and gives back what the work comes to', async () => {
    const steps: number[] = [];
    await expect(stoppable(undefined, (step: number) => steps.push(step), work)).resolves.toBe('done');
    expect(steps).toEqual([1, 2, 3]);
  });

  test('ends at the step after a signal, and not before it begins', async () => {
    const controller = new AbortController();
    const steps: number[] = [];
    const report = (step: number): void => {
      steps.push(step);
      if (step === 2) controller.abort('enough');
    };
    await expect(stoppable(controller.signal, report, work)).rejects.toMatchObject({
      name: 'InterruptedError',
      cause: 'enough',
    });
    await expect(stoppable(controller.signal, report, work)).rejects.toThrow(InterruptedError);
    expect(steps).toEqual([1, 2]);
  });

  test.each([1, 3])('what is thrown at step %d comes out, and ends the work', async (at) => {
    const steps: number[] = [];
    const report = (step: number): void => {
      steps.push(step);
      if (step === at) throw new RangeError('of the caller');
    };
    await expect(stoppable(undefined, report, work)).rejects.toThrow('of the caller');
    expect(steps).toHaveLength(at);
  });

  test('comes out even if the work is done by then', async () => {
    const start = async (onProgress: () => boolean): Promise<string> => {
      onProgress();
      return Promise.resolve('done');
    };
    await expect(
      stoppable(
        undefined,
        () => {
          throw new RangeError('of the caller');
        },
        start,
      ),
    ).rejects.toThrow('of the caller');
  });

  test('an error of the addon is one of the library, any other is itself', async () => {
    const start = async (): Promise<never> => Promise.reject(Object.assign(new Error('no memory'), { code: 'memory' }));
    await expect(stoppable(new AbortController().signal, undefined, start)).rejects.toThrow(NativeError);
    const foreign = new RangeError('mine');
    await expect(stoppable(undefined, undefined, () => Promise.reject(foreign))).rejects.toBe(foreign);
  });
});
