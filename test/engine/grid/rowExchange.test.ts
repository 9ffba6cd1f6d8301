import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import {
  exchangeLengths,
  keptTokens,
  mostExchanged,
  putTogether,
  ringExchange,
  ringExchangeNumbers,
  ringExchangeSteps,
  routesOf,
  takeOut,
  type Exchange,
  type KeptTokens,
} from '../../../src/engine/grid/rowExchange.js';
import { rowAttention, type RowAttention } from '../../../src/model/dividedLayer.js';

/** All engines of a ring exchange what they have. @returns what each has then, and how many numbers each has sent */
async function exchangeAll(
  values: readonly Float32Array[],
  attention: RowAttention,
  exchange: Exchange,
  kept: KeptTokens,
): Promise<{ readonly after: readonly Float32Array[]; readonly sent: readonly number[] }> {
  const of = values.length;
  const sent = values.map(() => 0);
  const steps = values.map(() => 0);
  const tokens = kept.flat().length;
  const links = values.map(() => ({
    waiting: [] as Float32Array[],
    take: undefined as ((came: Float32Array) => void) | undefined,
  }));
  const routes = routesOf(attention, exchange);
  const lengths = exchangeLengths(routes)(kept.map(({ length }) => length));
  const after = await Promise.all(
    values.map(async (own, index) => {
      const arrived = await ringExchange(
        takeOut(own, routes, kept, index),
        lengths,
        { index, of },
        {
          send: (step, going) => {
            expect(step).toBe(steps[index]);
            steps[index] = step + 1;
            sent[index] = (sent[index] ?? 0) + going.length;
            expect(going.length).toBeLessThanOrEqual(tokens * mostExchanged(attention));
            const link = links[(index + 1) % of];
            const take = link?.take;
            if (link) link.take = undefined;
            if (take) take(going);
            else link?.waiting.push(going);
          },
          receive: async (_, length) => {
            const link = links[index];
            if (!link) throw new RangeError('no such engine');
            const came = link.waiting.shift() ?? (await new Promise<Float32Array>((resolve) => (link.take = resolve)));
            expect(came).toHaveLength(length);
            return came;
          },
        },
      );
      return putTogether(arrived, own, routes, kept, index);
    }),
  );
  expect(steps).toEqual(values.map(() => ringExchangeSteps(of)));
  expect(sent).toEqual(values.map((_, index) => ringExchangeNumbers(lengths, { index, of })));
  return { after, sent };
}

/** A number for each column of each token: no two are the same. */
const numberOf = (token: number, column: number): number => token * 1000 + column;

const shapes = fc
  .record({ kvHeads: fc.integer({ min: 1, max: 8 }), group: fc.integer({ min: 1, max: 4 }), headDim: fc.constant(2) })
  .chain(({ kvHeads, group, headDim }) => {
    const heads = kvHeads * group;
    return fc.record({
      heads: fc.constant(heads),
      kvHeads: fc.constant(kvHeads),
      headDim: fc.constant(headDim),
      of: fc.integer({ min: 2, max: Math.max(2, Math.min(5, heads)) }),
      rows: fc.array(fc.record({ tokens: fc.integer({ min: 1, max: 3 }), keeper: fc.nat(4) }), {
        minLength: 1,
        maxLength: 6,
      }),
    });
  })
  .filter(({ heads, kvHeads, headDim, of }) => {
    try {
      rowAttention({ heads, kvHeads, headDim }, 1, of);
      return true;
    } catch {
      return false;
    }
  });

describe('the exchange of engines that keep some rows each', () => {
  test('brings each keeper all heads of its rows, and each share its heads of all rows', async () => {
    await fc.assert(
      fc.asyncProperty(shapes, async ({ heads, kvHeads, headDim, of, rows }) => {
        const attention = rowAttention({ heads, kvHeads, headDim }, 1, of);
        const kept = keptTokens(
          rows.map(({ tokens }, row) => ({ row, tokens })),
          (row) => (rows[row]?.keeper ?? 0) % of,
          of,
        );
        const count = kept.reduce((sum, { length }) => sum + length, 0);
        expect(kept.flat().toSorted((a, b) => a - b)).toEqual(Array.from({ length: count }, (_, token) => token));
        // Columns of queries, keys and values of all heads, as one engine would have them.
        const [q, k] = [heads * headDim, kvHeads * headDim];
        const projected = attention.shares.map(({ queryHeads, keyHeads }) => {
          const columns = [
            ...Array.from({ length: queryHeads.count * headDim }, (_, at) => queryHeads.first * headDim + at),
            ...[0, 1].flatMap((value) =>
              Array.from(
                { length: keyHeads.count * headDim },
                (_, at) => q + value * k + keyHeads.first * headDim + at,
              ),
            ),
          ];
          return Float32Array.from(
            Array.from({ length: count }, (_, token) => columns.map((column) => numberOf(token, column))).flat(),
          );
        });
        const { after } = await exchangeAll(projected, attention, 'rows', kept);
        after.forEach((values, index) => {
          const all = (kept[index] ?? []).flatMap((token) =>
            Array.from({ length: q + 2 * k }, (_, column) => numberOf(token, column)),
          );
          expect(values).toEqual(Float32Array.from(all));
        });
        const attended = kept.map((tokens) =>
          Float32Array.from(tokens.flatMap((token) => Array.from({ length: q }, (_, at) => numberOf(token, at)))),
        );
        const back = await exchangeAll(attended, attention, 'heads', kept);
        back.after.forEach((values, index) => {
          const { first = 0, count: own = 0 } = attention.shares[index]?.queryHeads ?? {};
          const all = Array.from({ length: count }, (_, token) =>
            Array.from({ length: own * headDim }, (__, at) => numberOf(token, first * headDim + at)),
          ).flat();
          expect(values).toEqual(Float32Array.from(all));
        });
      }),
    );
  });

  test('of one head of keys and values sends (n - 1) / 2n of the queries of even rows each way', () => {
    for (const engines of [2, 3, 4]) {
      const attention = rowAttention({ heads: 12, kvHeads: 1, headDim: 16 }, 1, engines);
      const tokens = Array.from({ length: engines }, () => 5);
      for (const exchange of ['rows', 'heads'] as const)
        for (let index = 0; index < engines; index++)
          expect(
            ringExchangeNumbers(exchangeLengths(routesOf(attention, exchange))(tokens), { index, of: engines }),
          ).toBe(((engines - 1) / (2 * engines)) * (5 * engines) * 12 * 16);
    }
  });

  test('takes keys and values from the nearest engine that has them, and sends none to one that has', () => {
    const attention = rowAttention({ heads: 8, kvHeads: 2, headDim: 1 }, 1, 4);
    // Shares 0 and 1 have the first head, 2 and 3 the second: of its 2 tokens engine 0 gets from 3 (and 3's queries).
    const lengths = exchangeLengths(routesOf(attention, 'rows'))([2, 0, 0, 0]);
    expect([0, 1, 2, 3].map((from) => lengths(from, 0))).toEqual([2 * 4, 2 * 2, 2 * 2, 2 * 4]);
    expect([0, 1, 2, 3].map((to) => lengths(1, to))).toEqual([4, 0, 0, 0]);
  });
});
