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
    ['all texts but long ones', { not: { enum: list(4000, (at) => `${'t'.repeat(200)}${at}`) } }],
    ['divisors, each put to all before', { allOf: list(3000, (at) => ({ multipleOf: at + 2 })) }],
    [
      'ways that exclude each other',
      {
        oneOf: list(100, (at) => ({
          properties: { a: { const: at }, b: { anyOf: list(20, (other) => ({ const: other })) } },
          required: ['a'],
        })),
      },
    ],
    [
      'names of which a pattern has as many as there are',
      {
        properties: Object.fromEntries(list(1000, (at) => [`k${at}`, true])),
        required: list(1000, (at) => `k${at}`),
        propertyNames: { pattern: '^(k|kk)+[0-9]*$' },
      },
    ],
    [
      'classes of a few characters among all',
      {
        properties: { a: { type: 'integer' } },
        patternProperties: Object.fromEntries(
          list(8, (at) => [`^(a|[^\\u{0}-\\u{${(0x10fff0 - at).toString(16)}}])$`, true]),
        ),
      },
    ],
    [
      'references by the thousand',
      { allOf: list(9000, () => ({ $ref: '#/$defs/a' })), $defs: { a: { type: 'null' } } },
    ],
  ])('%s: in slices, each of them short', (_, schema) => {
    let { longest, whole } = slicesOf(schema);
    // Processor time grows where others take the caches, and by the collector: what is long is long again.
    for (let tries = 0; longest >= 250 && tries < 5; tries++) ({ longest, whole } = slicesOf(schema));
    expect(longest).toBeLessThan(250);
    // The first two took many times that.
    expect(whole).toBeLessThan(10_000);
  });

  test('looking at an answer ends after so many steps, whatever its schema', () => {
    const schemas = [
      { pattern: '(a|b)'.repeat(1900) },
      { items: { allOf: list(300, (at) => ({ anyOf: list(20, (k) => ({ minLength: at, maxLength: k })) })) } },
      { anyOf: list(400, () => ({ $ref: '#/$defs/x' })), $defs: { x: { anyOf: list(400, (at) => ({ const: at })) } } },
    ].map((schema) => new EnforcedSchema(schema));
    for (const schema of schemas)
      for (const value of ['a'.repeat(20_000), list(2000, (at) => at)]) {
        const look = (): number => {
          const before = process.cpuUsage();
          schema.problem(value);
          const { user, system } = process.cpuUsage(before);
          return (user + system) / 1000;
        };
        // A collection of garbage may fall into one.
        let milliseconds = look();
        for (let tries = 0; milliseconds >= 400 && tries < 5; tries++) milliseconds = look();
        expect(milliseconds).toBeLessThan(400);
      }
  });

  test('masks hold a text to so many patterns at once, and the look at the whole answer to all', () => {
    const schema = new EnforcedSchema({
      type: 'string',
      allOf: list(20, (at) => ({ pattern: `^[a-t]*${'abcdefghijklmnopqrst'[at]}` })),
    });
    expect(schema.grammar).toMatchObject({ allOf: { length: 16 } });
    expect(schema.left).toEqual(['/allOf/0/pattern']);
    expect(schema.problem('abcdefghijklmnop')).toMatch(/does not match pattern/);
    expect(schema.problem('abcdefghijklmnopqrst')).toBeUndefined();
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
