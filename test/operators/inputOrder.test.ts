import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { EMPTY, NEVER, of, Subject, take, throwError } from 'rxjs';
import { inputOrder } from '../../src/operators/inputOrder.js';

const ordered = inputOrder<number>((value) => value);

describe('inputOrder', () => {
  test('restores any order, and holds nothing back that is due', () => {
    fc.assert(
      fc.property(fc.shuffledSubarray([0, 1, 2, 3, 4, 5, 6, 7], { minLength: 8 }), (values) => {
        const seen: number[] = [];
        const source$ = new Subject<number>();
        source$.pipe(ordered).subscribe((value) => seen.push(value));
        const arrived = new Set<number>();
        for (const value of values) {
          source$.next(value);
          arrived.add(value);
          const due = [0, 1, 2, 3, 4, 5, 6, 7].findIndex((each) => !arrived.has(each));
          expect(seen).toEqual([...Array(due < 0 ? 8 : due).keys()]);
        }
      }),
    );
  });

  test('never, empty and errors stay what they are', () => {
    const seen: unknown[] = [];
    const observer = {
      next: (value: unknown) => seen.push(value),
      error: (error: unknown) => seen.push(error),
      complete: () => seen.push('complete'),
    };
    NEVER.pipe(ordered).subscribe(observer).unsubscribe();
    expect(seen).toEqual([]);
    EMPTY.pipe(ordered).subscribe(observer);
    throwError(() => 'broken')
      .pipe(ordered)
      .subscribe(observer);
    expect(seen).toEqual(['complete', 'broken']);
  });

  test('a throwing callback is the error of the stream', () => {
    const error = new Error('no number');
    const seen: unknown[] = [];
    of(1)
      .pipe(
        inputOrder(() => {
          throw error;
        }),
      )
      .subscribe({ error: (each: unknown) => seen.push(each) });
    expect(seen).toEqual([error]);
  });

  test('unsubscribing in the midst of a burst stops it', () => {
    const seen: number[] = [];
    const source$ = new Subject<number>();
    const subscription = source$.pipe(ordered).subscribe((value) => {
      seen.push(value);
      if (value === 1) subscription.unsubscribe();
    });
    for (const value of [3, 2, 1, 0]) source$.next(value);
    expect(seen).toEqual([0, 1]);
  });

  test('however the stream ends, what waits goes out before, in order, with gaps', () => {
    fc.assert(
      fc.property(fc.uniqueArray(fc.nat(20)), fc.constantFrom('error', 'complete'), (values, end) => {
        const seen: unknown[] = [];
        const source$ = new Subject<number>();
        source$.pipe(ordered).subscribe({
          next: (value) => seen.push(value),
          error: (error: unknown) => seen.push(error),
          complete: () => seen.push('complete'),
        });
        for (const value of values) source$.next(value);
        if (end === 'error') source$.error('error');
        else source$.complete();
        expect(seen).toEqual([...values.sort((a, b) => a - b), end]);
      }),
    );
  });

  test('whoever unsubscribes while what waits goes out gets no more of it', () => {
    const seen: unknown[] = [];
    const source$ = new Subject<number>();
    source$
      .pipe(ordered, take(1))
      .subscribe({ next: (value) => seen.push(value), error: (error: unknown) => seen.push(error) });
    for (const value of [3, 2]) source$.next(value);
    source$.error('broken');
    expect(seen).toEqual([2]);
  });
});
