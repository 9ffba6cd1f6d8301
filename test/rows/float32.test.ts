import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { float32Numbers } from '../../src/rows/float32.js';

test('numbers are those of nine significant digits, and read back as the same float32', () => {
  const one = fc.oneof(
    fc.float({ noDefaultInfinity: true, noNaN: true }),
    fc.float({ min: -1, max: 1, noNaN: true }),
    fc.float({ min: Math.fround(-0.001), max: Math.fround(0.001), noNaN: true }),
  );
  fc.assert(
    fc.property(fc.float32Array({ minLength: 1 }), fc.array(one, { minLength: 64, maxLength: 64 }), (any, some) => {
      for (const values of [any.filter(Number.isFinite), Float32Array.from(some)]) {
        const numbers = float32Numbers(values);
        expect(numbers).toEqual(Array.from(values, (value) => Number(value.toPrecision(9))));
        // A zero has no sign among them.
        expect(Float32Array.from(numbers)).toEqual(values.map((value) => value + 0));
      }
    }),
    { numRuns: 300 },
  );
});

test('numbers next to powers of ten, where the count of places changes, are no others', () => {
  for (let power = -6; power <= 2; power++) {
    const bits = new Uint32Array(Float32Array.of(10 ** power).buffer)[0] ?? 0;
    const near = new Float32Array(Uint32Array.from({ length: 2001 }, (_, at) => bits + at - 1000).buffer);
    for (const values of [near, near.map((value) => -value)])
      expect(float32Numbers(values)).toEqual(Array.from(values, (value) => Number(value.toPrecision(9))));
  }
});
