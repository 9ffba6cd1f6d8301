import { describe, expect, test } from '@jest/globals';
import { EMPTY, from, NEVER, Observable, of, range, Subject, throwError } from 'rxjs';
import { UsageError } from '../../src/errors/UsageError.js';
import { pulled, type PulledOptions } from '../../src/operators/pulled.js';

async function all<T>(values: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = [];
  for await (const value of values) list.push(value);
  return list;
}

describe('pulled', () => {
  test('empty, one, many', async () => {
    await expect(all(pulled(EMPTY))).resolves.toEqual([]);
    await expect(all(pulled(of(1)))).resolves.toEqual([1]);
    await expect(all(pulled(from([1, undefined, 3, undefined])))).resolves.toEqual([1, undefined, 3, undefined]);
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

  test('return unsubscribes at once, also while a value is awaited, which then is none', async () => {
    const source$ = new Subject<number>();
    const values = pulled(source$);
    const pending = [values.next(), values.next()];
    source$.next(1);
    expect(source$.observed).toBe(true);
    void values.return();
    expect(source$.observed).toBe(false);
    await expect(Promise.all(pending)).resolves.toEqual([{ done: false, value: 1 }, { done: true, value: undefined }]);
    await expect(values.next()).resolves.toEqual({ done: true, value: undefined });
  });

  test('an overflow stops a source that emits without a pause and has no end', async () => {
    const values = pulled(range(0, Infinity), { capacity: 2 });
    await expect(values.next()).resolves.toEqual({ done: false, value: 0 });
    await expect(values.next()).resolves.toEqual({ done: false, value: 1 });
    await expect(values.next()).rejects.toThrow(UsageError);
    await expect(values.next()).resolves.toEqual({ done: true, value: undefined });
  });

  test.each([
    [{ capacity: NaN }, 'options.capacity: found NaN'],
    [{ capacity: 0 }, 'options.capacity: found 0'],
    [{ capacity: 'x' }, 'options.capacity: found "x"'],
    [{ overflow: 'drop' }, 'options.overflow: found "drop", expected one of error, drop-oldest, drop-newest'],
    [{ size: 3 }, 'options: found the unknown "size"'],
    [null, 'options: found null'],
  ])('refuses %j at once', (options, message) => {
    expect(() => pulled(EMPTY, options as PulledOptions)).toThrow(UsageError);
    expect(() => pulled(EMPTY, options as PulledOptions)).toThrow(message);
  });

  test('refuses what is no Observable', () => {
    expect(() => pulled([1] as never)).toThrow(UsageError);
    expect(() => pulled([1] as never)).toThrow('source: found an array of 1, expected an Observable');
  });

  test('does not subscribe before it is iterated', async () => {
    let subscribed = false;
    const values = pulled(new Observable(() => { subscribed = true; return NEVER.subscribe(); }));
    expect(subscribed).toBe(false);
    await values.return();
    expect(subscribed).toBe(false);
  });
});
