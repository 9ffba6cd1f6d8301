import { expect, test } from '@jest/globals';
import { RunLifecycle, type LifecycleEvents, type LifecycleSetup } from '../../../src/engine/execution/RunLifecycle.js';

test('a run that the device refuses is none: what is aborted later is none of its business', () => {
  const interrupt = new AbortController();
  let closings = 0;
  const events: LifecycleEvents = {
    begin: () => undefined,
    completed: () => undefined,
    closing: () => {
      closings++;
    },
    drained: () => undefined,
  };
  const refused = new Error('no memory for a further run');
  const setup = {
    id: 1,
    device: {
      openRun: () => {
        throw refused;
      },
    },
    grid: { slots: 1, tokensPerSquare: 1 },
    recorder: { onError: () => undefined },
    signal: interrupt.signal,
  } as unknown as LifecycleSetup;
  expect(() => new RunLifecycle(setup, undefined, events)).toThrow(refused);
  interrupt.abort();
  expect(closings).toBe(0);
});
