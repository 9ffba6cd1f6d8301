import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { ringSum, ringSumColumns, ringSumSteps } from '../../../src/engine/grid/ringSum.js';

interface Sent {
  readonly numbers: number[];
  readonly steps: number[];
}

/** All engines of a ring, and what each has sent. */
async function sumOf(
  parts: readonly Float32Array[],
  width: number,
): Promise<{ readonly sums: readonly Float32Array[]; readonly sent: Sent }> {
  const of = parts.length;
  const sent: Sent = { numbers: parts.map(() => 0), steps: parts.map(() => 0) };
  const links = parts.map(() => ({
    waiting: [] as Float32Array[],
    take: undefined as ((values: Float32Array) => void) | undefined,
  }));
  const sums = await Promise.all(
    parts.map((part, index) =>
      ringSum(
        part.slice(),
        part.length / width,
        { index, of },
        {
          send: (_, values) => {
            sent.numbers[index] = (sent.numbers[index] ?? 0) + values.length;
            sent.steps[index] = (sent.steps[index] ?? 0) + 1;
            const link = links[(index + 1) % of];
            if (link?.take) {
              const { take } = link;
              link.take = undefined;
              take(values);
            } else link?.waiting.push(values);
          },
          receive: async (_, length) => {
            const link = links[index];
            if (!link) throw new RangeError('no such engine');
            const values =
              link.waiting.shift() ?? (await new Promise<Float32Array>((resolve) => (link.take = resolve)));
            expect(values).toHaveLength(length);
            return values;
          },
        },
      ),
    ),
  );
  return { sums, sent };
}

/** In the order that is promised: a stretch's sum begins with the engine of its number. */
function expected(parts: readonly Float32Array[], width: number): Float32Array {
  const of = parts.length;
  return Float32Array.from(parts[0] ?? [], (_, i) => {
    const column = i % width;
    const stretch =
      Array.from({ length: of }, (__, s) => s).findLast((s) => Math.floor((width * s) / of) <= column) ?? 0;
    let sum = parts[stretch]?.[i] ?? NaN;
    for (let next = 1; next < of; next++) sum = Math.fround(sum + (parts[(stretch + next) % of]?.[i] ?? NaN));
    return sum;
  });
}

const rings = fc
  .record({
    of: fc.integer({ min: 2, max: 6 }),
    rows: fc.integer({ min: 1, max: 4 }),
    columns: fc.integer({ min: 1, max: 9 }),
  })
  .chain(({ of, rows, columns }) => {
    const width = of + columns;
    const values = fc.array(fc.float({ noNaN: true, min: -1e6, max: 1e6 }), {
      minLength: rows * width,
      maxLength: rows * width,
    });
    return fc.record({
      width: fc.constant(width),
      parts: fc.array(
        values.map((each) => Float32Array.from(each)),
        { minLength: of, maxLength: of },
      ),
    });
  });

describe('the sum that goes round a ring', () => {
  test('of two engines: both have it after one step', async () => {
    const { sums, sent } = await sumOf([Float32Array.of(1, 2, 3), Float32Array.of(10, 20, 30)], 3);
    expect(sums).toEqual([Float32Array.of(11, 22, 33), Float32Array.of(11, 22, 33)]);
    expect(sent).toEqual({ numbers: [3, 3], steps: [1, 1] });
  });

  test('of four engines with columns that divide: 2 (n - 1) / n of what each has', async () => {
    const parts = [1, 10, 100, 1000].map((each) => new Float32Array(16).fill(each));
    const { sums, sent } = await sumOf(parts, 8);
    for (const sum of sums) expect(sum).toEqual(new Float32Array(16).fill(1111));
    expect(sent).toEqual({ numbers: parts.map(() => 24), steps: parts.map(() => 6) });
  });

  test('is the same bits everywhere, in the order that its columns say, and costs what is said', async () => {
    await fc.assert(
      fc.asyncProperty(rings, async ({ parts, width }) => {
        const { sums, sent } = await sumOf(parts, width);
        for (const sum of sums) expect(sum).toEqual(expected(parts, width));
        const rows = (parts[0]?.length ?? 0) / width;
        const of = parts.length;
        expect(sent.numbers).toEqual(parts.map((_, index) => rows * ringSumColumns(width, { index, of })));
        expect(sent.steps).toEqual(parts.map(() => ringSumSteps(of)));
        // All together: Pope et al., appendix A.1.
        expect(sent.numbers.reduce((sum, each) => sum + each)).toBe(rows * width * 2 * (of - 1));
      }),
    );
  });

  test('of a row does not depend on the rows beside it', async () => {
    await fc.assert(
      fc.asyncProperty(rings, async ({ parts, width }) => {
        const alone = await sumOf(
          parts.map((part) => part.slice(0, width)),
          width,
        );
        const together = await sumOf(parts, width);
        expect(together.sums[0]?.slice(0, width)).toEqual(alone.sums[0]);
      }),
    );
  });
});
