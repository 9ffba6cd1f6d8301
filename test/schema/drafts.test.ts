import { describe, expect, test } from '@jest/globals';
import { EnforcedSchema } from '../../src/schema/EnforcedSchema.js';

const DRAFT = {
  4: 'http://json-schema.org/draft-04/schema#',
  6: 'http://json-schema.org/draft-06/schema',
  7: 'https://json-schema.org/draft-07/schema#',
  2019: 'https://json-schema.org/draft/2019-09/schema',
  2020: 'https://json-schema.org/draft/2020-12/schema',
} as const;

const valid = (draft: keyof typeof DRAFT | undefined, schema: object, ...values: readonly unknown[]): boolean[] => {
  const enforced = new EnforcedSchema({ ...(draft && { $schema: DRAFT[draft] }), ...schema });
  return values.map((value) => enforced.problem(value) === undefined);
};

describe('schemas of a draft are read as what they are', () => {
  test.each([4, 6, 7, 2019, undefined] as const)('tuples, additionalItems and dependencies of %s', (draft) => {
    const tuple = { items: [{ type: 'integer' }], additionalItems: { type: 'string' } };
    expect(valid(draft, tuple, [1, 'a'], [1, 2], ['a'])).toEqual([true, false, false]);
    // Without a list of items it says nothing.
    expect(valid(draft, { items: { type: 'integer' }, additionalItems: false }, [1, 2], ['a'])).toEqual([true, false]);
    const needs = { dependencies: { a: ['b'], c: { required: ['d'] } } };
    expect(valid(draft, needs, { a: 1 }, { a: 1, b: 1 }, { c: 1 }, { c: 1, d: 1 })).toEqual([false, true, false, true]);
  });

  test('siblings of $ref count from 2019-09 on', () => {
    const schema = {
      definitions: { text: { type: 'string' } },
      properties: { a: { $ref: '#/definitions/text', maxLength: 1 } },
    };
    for (const draft of [4, 6, 7] as const) expect(valid(draft, schema, { a: 'ab' }, { a: 1 })).toEqual([true, false]);
    for (const draft of [2019, 2020, undefined] as const)
      expect(valid(draft, schema, { a: 'ab' }, { a: 'a' })).toEqual([false, true]);
  });

  test('exclusive limits are true or false in draft 4, and where no draft is said', () => {
    const schema = { type: 'integer', minimum: 3, exclusiveMinimum: true, maximum: 5, exclusiveMaximum: false };
    for (const draft of [4, undefined] as const) {
      expect(valid(draft, schema, 3, 4, 5, 6)).toEqual([false, true, true, false]);
      const { grammar } = new EnforcedSchema({ ...(draft && { $schema: DRAFT[draft] }), ...schema });
      expect(grammar).toMatchObject({ exclusiveMinimum: 3, maximum: 5 });
    }
    expect(() => valid(7, schema)).toThrow(/\/exclusiveMinimum: found true, expected a number/);
  });

  test('names are `id` in draft 4, and anchors are fragments before 2019-09', () => {
    const schema = (id: string): object => ({
      definitions: { a: { [id]: '#a', type: 'integer' }, b: { [id]: 'http://example.com/b.json', type: 'string' } },
      properties: { a: { $ref: '#a' }, b: { $ref: 'http://example.com/b.json' } },
    });
    expect(valid(4, schema('id'), { a: 1, b: 'x' }, { a: 'x' }, { b: 1 })).toEqual([true, false, false]);
    for (const draft of [6, 7] as const)
      expect(valid(draft, schema('$id'), { a: 1, b: 'x' }, { a: 'x' }, { b: 1 })).toEqual([true, false, false]);
    expect(() => valid(2019, schema('$id'))).toThrow(/an address without a fragment/);
  });

  test('a keyword says nothing before the draft that has it', () => {
    expect(valid(4, { const: 1 }, 2)).toEqual([true]);
    expect(valid(6, { if: true, then: false }, 2)).toEqual([true]);
    expect(valid(7, { dependentRequired: { a: ['b'] } }, { a: 1 })).toEqual([true]);
    expect(valid(2019, { prefixItems: [false] }, [1])).toEqual([true]);
    expect(valid(2020, { const: 1, prefixItems: [false] }, 2)).toEqual([false]);
  });

  test('a schema in it of another draft is read as that', () => {
    const schema = {
      properties: { a: { $id: 'http://example.com/a', $schema: DRAFT[7], items: [{ type: 'integer' }] } },
    };
    expect(valid(2020, schema, { a: [1] }, { a: ['x'] })).toEqual([true, false]);
  });

  test('formats of no draft say nothing, those of one are looked at', () => {
    expect(valid(7, { format: 'color' }, 'x', 5)).toEqual([true, true]);
    expect(valid(7, { type: 'number', format: 'float' }, 5)).toEqual([true]);
    expect(valid(7, { format: 'json-pointer' }, '/a', 'a')).toEqual([true, false]);
    expect(new EnforcedSchema({ format: 'regex' }).left).toEqual(['/format']);
  });
});
