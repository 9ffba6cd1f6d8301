import { describe, expect, test } from '@jest/globals';
import { EMPTY, from, Observable, throwError } from 'rxjs';
import { iterated } from '../../src/operators/iterated.js';

const settled = (): Promise<void> => Promise.resolve();

describe('iterated', () => {
  test('yields everything in order, and says when a value is taken', async () => {
    let taken = 0;
    const seen: number[] = [];
    for await (const value of iterated(from([...Array(3000).keys()]), () => taken++, settled)) {
      expect(taken).toBe(value + 1);
      seen.push(value);
    }
    expect(seen).toEqual([...Array(3000).keys()]);
  });

  test('empty ends; an error is thrown after the values before it', async () => {
    await expect(iterated(EMPTY, () => undefined, settled).next()).resolves.toEqual({ done: true, value: undefined });
    await expect(
      iterated(
        throwError(() => new Error('broken')),
        () => undefined,
        settled,
      ).next(),
    ).rejects.toThrow('broken');
  });

  test('does not end before things have settled, whichever way it ends', async () => {
    for (const stop of ['end', 'break', 'error']) {
      let open = true;
      const later = (): Promise<void> =>
        new Promise((resolve) =>
          setTimeout(() => {
            open = false;
            resolve();
          }, 5),
        );
      const source$ = new Observable<number>((subscriber) => {
        subscriber.next(1);
        if (stop === 'end') subscriber.complete();
        if (stop === 'error') subscriber.error(new Error('broken'));
      });
      try {
        for await (const _ of iterated(source$, () => undefined, later)) if (stop === 'break') break;
      } catch (error) {
        expect(String(error)).toBe('Error: broken');
      }
      expect(open).toBe(false);
    }
  });

  test('a consumer that stops unsubscribes', async () => {
    let stopped = false;
    const source$ = new Observable<number>((subscriber) => {
      subscriber.next(1);
      return () => (stopped = true);
    });
    for await (const _ of iterated(source$, () => undefined, settled)) break;
    expect(stopped).toBe(true);
  });
});
