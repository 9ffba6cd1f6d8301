import { describe, expect, test } from '@jest/globals';
import { madeOf } from '../../src/collections/cancellable.js';

async function* doubled(numbers: AsyncIterable<number>): AsyncGenerator<number, void, undefined> {
  for await (const number of numbers) yield 2 * number;
}

async function all<T>(iterator: AsyncIterator<T, void, undefined>): Promise<T[]> {
  const values: T[] = [];
  for (let step = await iterator.next(); step.done !== true; step = await iterator.next()) values.push(step.value);
  return values;
}

describe('madeOf', () => {
  test('reads iterables of either kind to their end, and passes their error on', async () => {
    await expect(all(madeOf([1, 2, 3], doubled))).resolves.toEqual([2, 4, 6]);
    await expect(
      all(
        madeOf(
          (async function* () {
            yield* [1, 2];
          })(),
          doubled,
        ),
      ),
    ).resolves.toEqual([2, 4]);
    await expect(all(madeOf([Promise.resolve(4)] as unknown as number[], doubled))).resolves.toEqual([8]);
    await expect(
      all(
        madeOf(
          (function* (): Generator<number> {
            throw new Error('torn');
          })(),
          doubled,
        ),
      ),
    ).rejects.toThrow('torn');
  });

  test('return ends a pending next and tells the input, once, without waiting for it', async () => {
    let returned = 0;
    const input = {
      [Symbol.asyncIterator]: () => ({
        next: () => new Promise<never>(() => undefined),
        return: () => {
          returned++;
          return Promise.reject(new Error('of no interest'));
        },
      }),
    };
    const values = madeOf(input, doubled);
    const pending = values.next();
    await new Promise((resolve) => setImmediate(resolve));
    void values.return?.();
    void values.return?.();
    expect(returned).toBe(1);
    await expect(pending).resolves.toEqual({ done: true, value: undefined });
  });

  test('an input that ends whoever reads it, from within, is ended all the same', async () => {
    let closed = false;
    let asked = 0;
    const input = function* (): Generator<number> {
      try {
        for (;;) {
          if (++asked === 2) void values.return?.();
          yield asked;
        }
      } finally {
        closed = true;
      }
    };
    const values = madeOf(input(), doubled);
    await expect(all(values)).resolves.toEqual([2]);
    expect([closed, asked]).toEqual([true, 2]);
  });

  test('an input that was never read is left alone', async () => {
    let begun = false;
    const values = madeOf(
      {
        [Symbol.iterator]: () => {
          begun = true;
          return [1][Symbol.iterator]();
        },
      },
      doubled,
    );
    await values.return?.();
    await expect(values.next()).resolves.toEqual({ done: true, value: undefined });
    expect(begun).toBe(false);
  });

  test('a maker that fails tells the input', async () => {
    let closed = false;
    const values = madeOf(
      (function* () {
        try {
          yield 1;
        } finally {
          closed = true;
        }
      })(),
      async function* (numbers) {
        for await (const number of numbers) {
          if (number === 1) throw new Error('not that');
          yield number;
        }
      },
    );
    await expect(values.next()).rejects.toThrow('not that');
    expect(closed).toBe(true);
  });
});
