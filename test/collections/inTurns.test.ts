import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from '@jest/globals';
import { drained, type Work } from '../../src/collections/drained.js';
import { inTurns } from '../../src/collections/inTurns.js';

describe('work that waits for what is done elsewhere', () => {
  test('goes on once that is done', async () => {
    const seen: string[] = [];
    const work = (function* (): Work<string> {
      yield;
      yield sleep(5).then(() => void seen.push('elsewhere'));
      seen.push('here');
      return 'made';
    })();
    const made = inTurns(work, { signal: new AbortController().signal });
    expect(seen).toEqual([]);
    expect(await made).toBe('made');
    expect(seen).toEqual(['elsewhere', 'here']);
  });

  test('is given up once nobody wants it, and gives back what it holds', async () => {
    const ending = new AbortController();
    let held = true;
    const work = (function* (): Work<string> {
      try {
        yield new Promise<void>(() => undefined);
      } finally {
        held = false;
      }
      return 'made';
    })();
    const made = inTurns(work, { signal: ending.signal });
    const reason = new Error('nobody wants it');
    ending.abort(reason);
    await expect(made).rejects.toBe(reason);
    expect(held).toBe(false);
  });

  test('cannot be done without waiting', () => {
    const work = (function* (): Work<number> {
      yield Promise.resolve();
      return 1;
    })();
    expect(() => drained(work)).toThrow('found work that waits');
  });
});

test('what is done within a turn is there at once', () => {
  const work = (function* (): Work<number> {
    yield;
    return 1;
  })();
  expect(inTurns(work)).toBe(1);
});
