import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { foundJson } from '../../src/arguments/found.js';

const cycle: Record<string, unknown> = {};
cycle['self'] = cycle;

describe('foundJson', () => {
  test.each<[unknown, string]>([
    [{ a: [1, 'x'] }, '{"a":[1,"x"]}'],
    ['x', '"x"'],
    [NaN, 'NaN'],
    [null, 'null'],
    [undefined, 'undefined'],
    [5n, '5n'],
    [() => 1, 'a function'],
    [cycle, 'an object with self'],
    [{ a: 5n }, 'an object with a'],
    [{ toJSON: () => undefined }, 'an object with toJSON'],
    [['x'.repeat(100)], `["${'x'.repeat(78)}…`],
  ])('%# is told as it stands', (value, text) => {
    expect(foundJson(value)).toBe(text);
  });

  test('whatever it is, it is told on one short line', () => {
    fc.assert(
      fc.property(
        fc.anything({ withBigInt: true, withNullPrototype: true, withTypedArray: true, withDate: true }),
        (value) => {
          expect(foundJson(value)).not.toContain('\n');
          expect(foundJson(value).length).toBeLessThan(200);
        },
      ),
    );
  });
});
