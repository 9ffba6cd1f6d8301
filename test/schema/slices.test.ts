import { describe, expect, test } from '@jest/globals';
import { ANSWER_BOUNDS, EnforcedSchema } from '../../src/schema/EnforcedSchema.js';

const list = <T>(length: number, of: (at: number) => T): T[] => Array.from({ length }, (_, at) => of(at));

/** The longest part of the work between two moments at which it may stop, and all of it; milliseconds of processor. */
function slicesOf(schema: unknown): { readonly longest: number; readonly whole: number } {
  const work = EnforcedSchema.inParts(schema, ANSWER_BOUNDS);
  let [longest, whole] = [0, 0];
  for (let done = false; !done;) {
    const before = process.cpuUsage();
    try {
      done = work.next().done === true;
    } catch {
      done = true;
    }
    const { user, system } = process.cpuUsage(before);
    const milliseconds = (user + system) / 1000;
    longest = Math.max(longest, milliseconds);
    whole += milliseconds;
  }
  return { longest, whole };
}

describe('reading a schema that a row brings', () => {
  test.each<[string, unknown]>([
    ['objects, each of which is looked for among all', { enum: list(30_000, (at) => ({ [`k${at}`]: 1 })) }],
    [
      'lists of many values, one within the other',
      { anyOf: list(200, (at) => ({ enum: list(100, (k) => at * 100 + k) })), enum: list(2000, (at) => at) },
    ],
    ['long texts held to a pattern', { enum: list(20, (at) => `${'a'.repeat(20_000)}${at}`), pattern: '(a|aa)+$' }],
    [
      'more choices than are multiplied out',
      { allOf: list(2500, (at) => ({ anyOf: [{ minLength: at }, { type: 'integer' }] })) },
    ],
    ['all numbers but many', { not: { enum: list(90_000, (at) => at) } }],
  ])('%s: in slices, each of them short', (_, schema) => {
    const { longest, whole } = slicesOf(schema);
    expect(longest).toBeLessThan(250);
    // The first two took many times that.
    expect(whole).toBeLessThan(10_000);
  });

  test('a value that lists do not have is told with a few of theirs, however many there are', () => {
    const schema = new EnforcedSchema({ enum: list(50_000, (at) => `t${at}`) });
    expect(schema.problem('x')).toBe('#: Instance does not match any of "t0", "t1", "t2", "t3", "t4", … (50000).');
    expect(schema.problem('t49999')).toBeUndefined();
    const objects = new EnforcedSchema({ enum: [{ a: 1, b: [2] }, [1]], const: { b: [2], a: 1 } });
    expect(objects.problem({ b: [2], a: 1 })).toBeUndefined();
    expect(objects.problem({ b: [2] })).toMatch(/does not match/);
  });
});
