import { describe, expect, test } from '@jest/globals';
import { getEventListeners } from 'node:events';
import { onAbort } from '../../../src/engine/execution/onAbort.js';

describe('onAbort', () => {
  test('calls everyone who waits, once, through one listener', () => {
    const controller = new AbortController();
    const seen: unknown[] = [];
    const stops = [1, 2, 3].map((each) => onAbort(controller.signal, (reason) => seen.push([each, reason])));
    expect(getEventListeners(controller.signal, 'abort')).toHaveLength(1);
    stops[1]?.();
    stops[1]?.();
    controller.abort('enough');
    expect(seen).toEqual([
      [1, 'enough'],
      [3, 'enough'],
    ]);
  });

  test('leaves no listener when nobody waits, and listens again for the next', () => {
    const controller = new AbortController();
    onAbort(controller.signal, () => undefined)();
    expect(getEventListeners(controller.signal, 'abort')).toHaveLength(0);
    let fired = 0;
    const stop = onAbort(controller.signal, () => {
      fired++;
      stop();
    });
    onAbort(controller.signal, () => fired++);
    controller.abort();
    expect(fired).toBe(2);
  });
});
