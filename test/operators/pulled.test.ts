import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { EMPTY, from, map, NEVER, Observable, of, range, Subject, throwError } from 'rxjs';
import { UsageError } from '../../src/errors/UsageError.js';
import { FileQueue } from '../../src/operators/FileQueue.js';
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
    await expect(
      (async () => {
        for await (const value of pulled(source$)) seen.push(value);
      })(),
    ).rejects.toThrow('broken');
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

  test('by default overflow is an error, told at once, and stops the source', async () => {
    let stopped = false;
    const source$ = new Observable<number>((subscriber) => {
      for (let i = 0; i < 5; i++) subscriber.next(i);
      return () => (stopped = true);
    });
    const seen: number[] = [];
    const run = async (): Promise<void> => {
      for await (const value of pulled(source$, { capacity: 3, fileBytes: 0 })) seen.push(value);
    };
    await expect(run()).rejects.toThrow(UsageError);
    expect(seen).toEqual([]);
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
    await expect(Promise.all(pending)).resolves.toEqual([
      { done: false, value: 1 },
      { done: true, value: undefined },
    ]);
    await expect(values.next()).resolves.toEqual({ done: true, value: undefined });
  });

  test('an overflow stops a source that emits without a pause and has no end', async () => {
    const values = pulled(range(0, Infinity), { capacity: 2, fileBytes: '100KiB' });
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
    const values = pulled(
      new Observable(() => {
        subscribed = true;
        return NEVER.subscribe();
      }),
    );
    expect(subscribed).toBe(false);
    await values.return();
    expect(subscribed).toBe(false);
  });
});

describe('more than fits into memory', () => {
  const folder = mkdtempSync(join(tmpdir(), 'spillway-queue-'));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  test('20,000 rows more than fit wait in a file without a name, in order, and come whole', async () => {
    const rows = range(0, 20_000).pipe(map((id) => ({ id, prompt: `row ${id}`, carry: { at: [id, undefined, 'é'] } })));
    let number = 0;
    for await (const row of pulled(rows, { capacity: 100, folder })) {
      if (number === 5) expect(readdirSync(folder)).toEqual([]);
      if (row.id !== number) throw new Error(`row ${row.id} came as number ${number}`);
      if (number % 1000 === 999)
        expect(row).toEqual({ id: number, prompt: `row ${number}`, carry: { at: [number, undefined, 'é'] } });
      number++;
    }
    expect(number).toBe(20_000);
  });

  test('values that come while others wait in the file go behind them', async () => {
    const source$ = new Subject<number>();
    const values = pulled(source$, { capacity: 2, folder });
    const first = values.next();
    for (const value of [0, 1, 2, 3, 4]) source$.next(value);
    const seen = [(await first).value, (await values.next()).value, (await values.next()).value];
    for (const value of [5, 6]) source$.next(value);
    source$.complete();
    for await (const value of values) seen.push(value);
    expect(seen).toEqual([0, 1, 2, 3, 4, 5, 6]);
  });

  test('beyond the bound of the file it is told at once, not after what waits', async () => {
    const source$ = new Subject<string>();
    const values = pulled(source$, { capacity: 1, fileBytes: '10KiB', folder });
    const first = values.next();
    for (let value = 0; value < 14; value++) source$.next('x'.repeat(1000));
    await expect(first).resolves.toMatchObject({ done: false });
    await expect(values.next()).rejects.toThrow(
      /values wait, and no more may: the source is faster than its consumer; raise capacity or fileBytes/,
    );
    expect(source$.observed).toBe(false);
    await expect(values.next()).resolves.toEqual({ done: true, value: undefined });
  });

  test('what is no plain data, and a folder that is none, are told', async () => {
    const all = async (values: AsyncIterable<unknown>): Promise<number> => {
      let count = 0;
      for await (const _ of values) count++;
      return count;
    };
    await expect(all(pulled(from([1, 2, { f: () => 1 }]), { capacity: 1, folder }))).rejects.toThrow(
      /one cannot be kept in a file: .*could not be cloned/,
    );
    await expect(all(pulled(range(0, 5), { capacity: 1, folder: '/dev/null/x' }))).rejects.toThrow(
      /one cannot be kept in a file: (Error: )?ENOTDIR/,
    );
  });
});

test('a queue in files: what is pushed comes out in order, whatever is done in between; room comes free again', () => {
  const folder = mkdtempSync(join(tmpdir(), 'spillway-queue-'));
  try {
    fc.assert(
      fc.property(fc.array(fc.option(fc.jsonValue(), { nil: undefined }), { maxLength: 40 }), (steps) => {
        const queue = new FileQueue<unknown>(folder, 2 ** 20);
        const model: unknown[] = [];
        for (const step of steps) {
          if (step === undefined && model.length > 0) expect(queue.shift()).toEqual(model.shift());
          else if (queue.push(step)) model.push(step);
          expect(queue.length).toBe(model.length);
        }
        while (model.length > 0) expect(queue.shift()).toEqual(model.shift());
        expect(() => queue.shift()).toThrow(RangeError);
        queue.clear();
      }),
      { numRuns: 30 },
    );
    const small = new FileQueue<string>(folder, 1500);
    expect([small.push('x'.repeat(50)), small.push('y'.repeat(50))]).toEqual([true, false]);
    small.shift();
    expect(small.push('y'.repeat(50))).toBe(true);
    small.clear();
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
