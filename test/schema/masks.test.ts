import { describe, expect, test } from '@jest/globals';
import { EnforcedSchema } from '../../src/schema/EnforcedSchema.js';
import { quotable, translated } from '../../src/schema/patterns.js';
import { relaxed } from '../../src/schema/relaxed.js';

describe('masks of patterns', () => {
  test('have no class with all control characters that quotes or backslashes are not in', () => {
    // The grammar's engine adds these to such a class: `\\"` would follow `^[^"]{4}$`.
    expect(quotable(translated('^[^"]{4}$'))).toBe('^(?:[^\\u{0}\\u{22}]{4})$');
    expect(quotable(translated('^[^\\\\]+$'))).toBe('^(?:[^\\u{0}\\u{5c}]+)$');
    expect(quotable(translated('^[\\x00-!]*$'))).toBe('^(?:[\\u{1}-\\u{21}]*)$');
    expect(quotable(translated('^[^a]b.*$'))).toBe(translated('^[^a]b.*$'));
    expect(new EnforcedSchema({ pattern: '^[^"]{4}$' }).grammar).toMatchObject({
      anyOf: expect.arrayContaining([expect.objectContaining({ pattern: '^(?:[^\\u{0}\\u{22}]{4})$' })]) as unknown,
    });
  });

  test.each([
    ['^([a-z]{1,64}){1,150}$', '^(?:(?:[a-z]{1,64})+)$'],
    ['^.*a.{0,64}$', '^(?:[^\\u{a}\\u{d}\\u{2028}\\u{2029}]*a[^\\u{a}\\u{d}\\u{2028}\\u{2029}]*)$'],
  ])('are not counted where their states would be too many: %s', (pattern, written) => {
    expect(relaxed(translated(pattern))).toBe(written);
    const schema = new EnforcedSchema({ type: 'string', pattern });
    expect(schema.left).toEqual(['/pattern']);
    expect(schema.problem('-'.repeat(10_000))).toBeDefined();
  });

  test.each([
    [{ maxLength: 5000 }, ['/maxLength']],
    [{ minLength: 100, maxLength: 5000 }, ['/minLength', '/maxLength']],
    [{ minLength: 400 }, ['/minLength']],
    [{ maxLength: 40 }, []],
    [{}, []],
  ])('leave lengths to the look where the pattern counts parts without end: %j', (lengths, left) => {
    const schema = new EnforcedSchema({ type: 'string', pattern: '^(?:\\S+\\s+){0,99}\\S+$', ...lengths });
    expect(schema.left).toEqual(left);
    expect(schema.grammar).toMatchObject(left.length > 0 ? { type: 'string' } : lengths);
    expect(Object.keys(schema.grammar as object)).toEqual(
      expect.arrayContaining(left.length > 0 ? ['pattern'] : ['pattern', ...Object.keys(lengths)]),
    );
    expect(schema.problem('a '.repeat(3000).trim())).toBeDefined();
  });

  test.each(['^([0-9]{1,3}\\.){3}[0-9]{1,3}$', '^[a-z]{1,9000}$', '^.*a.{0,20}$', '^(?:[0-9a-f]{2}:){5}[0-9a-f]{2}$'])(
    'are counted where they can be: %s',
    (pattern) => {
      expect(relaxed(translated(pattern))).toBe(translated(pattern));
      expect(new EnforcedSchema({ pattern }).left).toEqual([]);
    },
  );
});

describe('answers end', () => {
  const all = {
    type: 'object',
    properties: { n: { type: 'number' }, s: { type: 'string' }, l: { type: 'array', items: { type: 'boolean' } } },
  };
  test('where their schema has no bound: digits, strings, lists, and names that are not listed', () => {
    expect(new EnforcedSchema(all).grammar).toMatchObject({
      properties: { n: { multipleOf: 1e-10 }, s: { maxLength: 8192 }, l: { maxItems: 1024 } },
    });
    expect(new EnforcedSchema({ type: 'object', additionalProperties: { type: 'null' } }).grammar).toMatchObject({
      maxProperties: 1024,
    });
    expect(new EnforcedSchema(all, { stringLength: 5, items: 2 }).grammar).toMatchObject({
      properties: { s: { maxLength: 5 }, l: { maxItems: 2 } },
    });
  });

  test('not before what their schema asks for', () => {
    expect(new EnforcedSchema({ type: 'string', minLength: 10_000 }).grammar).toMatchObject({ maxLength: 10_000 });
    expect(new EnforcedSchema({ type: 'number', minimum: 0, maximum: 1e-12 }).grammar).not.toHaveProperty('multipleOf');
  });

  test('of items that are not alike there are no more than there are values', () => {
    const unique = new EnforcedSchema({ type: 'array', items: { enum: ['a', 'b', 'c'] }, uniqueItems: true });
    expect(unique.grammar).toMatchObject({ maxItems: 3 });
    expect(unique.left).toEqual(['/uniqueItems']);
    expect([unique.problem(['a', 'b']), unique.problem(['a', 'a'])]).toEqual([
      undefined,
      expect.stringContaining('uplicate'),
    ]);
  });
});
