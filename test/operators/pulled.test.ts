import { describe, expect, test } from '@jest/globals';
import { EMPTY, from, NEVER, Observable, of, Subject, throwError } from 'rxjs';
import { UsageError } from '../../src/errors/UsageError.js';
import { pulled } from '../../src/operators/pulled.js';

async function all<T>(values: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = [];
  for await (const value of values) list.push(value);
  return list;
}

describe('pulled', () => {
  test('empty, one, many', async () => {
    await expect(all(pulled(EMPTY))).resolves.toEqual([]);
    await expect(all(pulled(of(1)))).resolves.toEqual([1]);
    await expect(all(pulled(from([1, undefined, 3])))).resolves.toEqual([1, undefined, 3]);
  });

  test('an error comes after the values before it', async () => {
    const seen: number[] = [];
    const source$ = new Observable<number>((subscriber) => {
      subscriber.next(1);
      subscriber.error(new Error('broken'));
    });
    await expect((async () => { for await (const value of pulled(source$)) seen.push(value); })()).rejects.toThrow('broken');
    expect(seen).toEqual([1]);
    await expect(all(pulled(throwError(() => new Error('at once'))))).rejects.toThrow('at once');
  });

  test('waits for values that come later', async () => {
    const source$ = new Subject<number>();
    const result = all(pulled(source$));
    for (const value of [1, 2]) {
      await new Promise((resolve) => setImmediate(resolve));
      source$.next(value);
    }
    source$.complete();
    await expect(result).resolves.toEqual([1, 2]);
  });

  test.each([
    ['drop-newest', [1, 2]],
    ['drop-oldest', [4, 5]],
  ] as const)('%s', async (overflow, expected) => {
    await expect(all(pulled(of(1, 2, 3, 4, 5), { capacity: 2, overflow }))).resolves.toEqual(expected);
  });

  test('by default overflow is an error, after what fitted, and stops the source', async () => {
    let stopped = false;
    const source$ = new Observable<number>((subscriber) => {
      for (let i = 0; i < 5; i++) subscriber.next(i);
      return () => (stopped = true);
    });
    const seen: number[] = [];
    const run = async (): Promise<void> => { for await (const value of pulled(source$, { capacity: 3 })) seen.push(value); };
    await expect(run()).rejects.toThrow(UsageError);
    expect(seen).toEqual([0, 1, 2]);
    expect(stopped).toBe(true);
  });

  test('a consumer that stops unsubscribes', async () => {
    let stopped = false;
    const source$ = new Observable<number>((subscriber) => {
      subscriber.next(1);
      return () => (stopped = true);
    });
    for await (const _ of pulled(source$)) break;
    expect(stopped).toBe(true);
  });

  test('does not subscribe before it is iterated', async () => {
    let subscribed = false;
    const values = pulled(new Observable(() => { subscribed = true; return NEVER.subscribe(); }));
    expect(subscribed).toBe(false);
    await values.return();
    expect(subscribed).toBe(false);
  });
});
