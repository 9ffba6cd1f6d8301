import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { BlockStart } from '../../../src/engine/execution/BlockStart.js';

describe('a block begins', () => {
  const wake = jest.fn();
  beforeEach(() => {
    jest.useFakeTimers();
    wake.mockClear();
  });
  afterEach(() => {
    jest.useRealTimers();
  });

  test('at once where nothing more can come', () => {
    const start = new BlockStart(wake);
    expect(start.waits(1, true)).toBe(false);
    expect(jest.getTimerCount()).toBe(0);
  });

  test('when the source pauses, and asks by itself', () => {
    const start = new BlockStart(wake);
    for (let rows = 1; rows <= 10; rows++) {
      expect(start.waits(rows, false)).toBe(true);
      jest.advanceTimersByTime(30);
    }
    wake.mockClear();
    jest.advanceTimersByTime(19);
    expect(start.waits(10, false)).toBe(true);
    expect(wake).not.toHaveBeenCalled();
    jest.advanceTimersByTime(1);
    expect(wake).toHaveBeenCalledTimes(1);
    expect(start.waits(10, false)).toBe(false);
  });

  test('after a second at the latest, and the next one waits anew', () => {
    const start = new BlockStart(wake);
    let rows = 1;
    for (; start.waits(rows, false); rows++) jest.advanceTimersByTime(25);
    expect(rows).toBe(41);
    expect(start.waits(1, false)).toBe(true);
    start.close();
    expect(jest.getTimerCount()).toBe(0);
  });

  test('when it is full, without waiting for anything', () => {
    const start = new BlockStart(wake);
    expect(start.waits(3, false)).toBe(true);
    expect(start.waits(4, true)).toBe(false);
    expect(jest.getTimerCount()).toBe(0);
  });
});
