import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { z } from 'zod';
import { declaredProperties, type PropertyType } from '../../src/schema/declaredProperties.js';
import { UnsupportedSchema } from '../../src/schema/SchemaDocument.js';
import { zodValueSchema } from '../../src/schema/zodJsonSchema.js';
import { enforced, suite } from '../support/jsonSchemaSuite.js';

const typesOf = (schema: unknown): readonly string[] | undefined =>
  declaredProperties(schema)?.map(({ name, type }) => `${name}: ${type}`);
const object = (properties: object, more: object = {}): object => ({ type: 'object', properties, ...more });

describe('properties that become columns', () => {
  test.each<[PropertyType, unknown]>([
    ['string', { type: 'string' }],
    ['string', { type: ['string', 'null'] }],
    ['string', { enum: ['a', 'b', null] }],
    ['string', { const: 'a' }],
    ['string', { type: 'string', format: 'date' }],
    ['string', { anyOf: [{ type: 'string' }, { type: 'null' }] }],
    ['string', { $ref: '#/$defs/text' }],
    ['string', { $ref: '#text' }],
    ['string', { allOf: [{ type: ['string', 'number'] }, { type: 'string' }] }],
    ['integer', { type: 'integer' }],
    ['integer', { type: ['null', 'integer'] }],
    ['integer', { enum: [1, 2] }],
    ['integer', { type: 'number', enum: [1, 2] }],
    ['number', { type: 'number' }],
    ['number', { type: ['integer', 'number'] }],
    ['number', { enum: [1, 0.5] }],
    ['number', { const: 0.5 }],
    ['number', { oneOf: [{ type: 'integer' }, { type: 'number', minimum: 0.5 }] }],
    ['boolean', { type: 'boolean' }],
    ['boolean', { enum: [true] }],
    ['json', true],
    ['json', {}],
    ['string[]', { type: 'array', items: { type: 'string' } }],
    ['string[]', { type: ['array', 'null'], items: { $ref: '#text' } }],
    ['integer[]', { type: 'array', items: { type: ['integer', 'null'] } }],
    ['number[]', { type: 'array', items: { type: 'number' }, minItems: 1 }],
    ['boolean[]', { $ref: '#/$defs/flags' }],
    ['json', { type: 'array' }],
    ['json', { type: 'array', items: { type: 'array', items: { type: 'string' } } }],
    ['json', { type: 'array', items: { type: ['string', 'integer'] } }],
    ['json', { type: 'array', prefixItems: [{ type: 'integer' }], items: { type: 'string' } }],
    ['json', { type: ['array', 'string'], items: { type: 'string' } }],
    ['json', object({ a: true })],
    ['json', { type: ['string', 'integer'] }],
    ['json', { enum: ['a', 1] }],
    ['json', { anyOf: [{ type: 'string' }, { type: 'array' }] }],
    ['json', { type: 'null' }],
    ['json', { $ref: '#/$defs/ring' }],
    ['json', { not: { type: 'string' } }],
    ['json', { $ref: '#' }],
  ])('%s for %j', (type, property) => {
    const $defs = {
      text: { $anchor: 'text', type: 'string' },
      flags: { type: 'array', items: { type: 'boolean' } },
      ring: { $ref: '#/$defs/back' },
      back: { $ref: '#/$defs/ring' },
    };
    expect(typesOf(object({ it: property, last: { type: 'boolean' } }, { $defs }))).toEqual([
      `it: ${type}`,
      'last: boolean',
    ]);
  });

  test('the order is that of the schema; any name is one; a root may refer to its object', () => {
    const names = ['b', 'a/b', 'a~b', 'a', '', 'constructor', '__proto__', 'größe', 'a b'];
    const schema = JSON.parse(
      `{"type":"object","properties":{${names.map((name) => `${JSON.stringify(name)}:{"type":"integer"}`).join(',')}}}`,
    ) as object;
    expect(declaredProperties(schema)?.map(({ name }) => name)).toEqual(names);
    expect(
      typesOf({
        $ref: '#/$defs/person',
        $defs: { person: { $ref: '#/$defs/whole' }, whole: object({ age: { type: 'integer' } }) },
      }),
    ).toEqual(['age: integer']);
    expect(
      typesOf(object({ age: { type: 'integer' } }, { anyOf: [{ required: ['age'] }, { minProperties: 1 }] })),
    ).toEqual(['age: integer']);
  });

  test.each([
    true,
    {},
    { type: 'object' },
    object({}),
    { properties: { a: true } },
    { type: ['object', 'null'], properties: { a: true } },
    { type: 'array', items: object({ a: true }) },
    { anyOf: [object({ a: true }), object({ b: true })] },
    { allOf: [object({ a: true })] },
    { enum: [{ a: 1 }] },
    { $ref: '#' },
    { $ref: '#/$defs/list', $defs: { list: { type: 'array' } } },
  ])('%j has none: its values are a column as a whole', (schema) => {
    expect(declaredProperties(schema)).toBeUndefined();
  });

  test('of zod: what comes out, whatever a transform makes of it', () => {
    const schema = z.object({
      a: z.string().nullable(),
      b: z.int().optional(),
      c: z.number().default(1),
      d: z.int().transform(String),
      e: z.array(z.string()),
      f: z.enum(['x', 'y']),
      g: z.literal(3),
    });
    expect(typesOf(zodValueSchema(schema))).toEqual([
      'a: string',
      'b: integer',
      'c: number',
      'd: json',
      'e: string[]',
      'f: string',
      'g: integer',
    ]);
    expect(typesOf(zodValueSchema(schema.transform(({ a }) => a)))).toBeUndefined();
  });

  test('what is no schema is refused with its place; chains of references and choices end', () => {
    expect(() => declaredProperties({ type: 'object', properties: { a: { $ref: '#/$defs/none' } } })).toThrow(
      UnsupportedSchema,
    );
    expect(() => declaredProperties({ type: 'objekt' })).toThrow(UnsupportedSchema);
    const chain = Object.fromEntries(
      Array.from({ length: 4000 }, (_, at) => [`d${at}`, { $ref: `#/$defs/d${at + 1}` }]),
    );
    expect(typesOf(object({ a: { $ref: '#/$defs/d0' } }, { $defs: { ...chain, d4000: { type: 'string' } } }))).toEqual([
      'a: json',
    ]);
    const doubled = Object.fromEntries(
      Array.from({ length: 40 }, (_, at) => [
        `d${at}`,
        { allOf: [{ $ref: `#/$defs/d${at + 1}` }, { $ref: `#/$defs/d${at + 1}` }] },
      ]),
    );
    expect(typesOf(object({ a: { $ref: '#/$defs/d20' } }, { $defs: { ...doubled, d40: { type: 'string' } } }))).toEqual(
      ['a: string'],
    );
  });
});

const FITS: Readonly<Record<PropertyType, (value: unknown) => boolean>> = {
  string: (value) => typeof value === 'string',
  integer: (value) => Number.isInteger(value),
  number: (value) => typeof value === 'number',
  boolean: (value) => typeof value === 'boolean',
  json: () => true,
  'string[]': listOf((value) => typeof value === 'string'),
  'integer[]': listOf((value) => Number.isInteger(value)),
  'number[]': listOf((value) => typeof value === 'number'),
  'boolean[]': listOf((value) => typeof value === 'boolean'),
};

function listOf(fits: (value: unknown) => boolean): (value: unknown) => boolean {
  return (list) => Array.isArray(list) && list.every((value) => value === null || fits(value));
}

test('no value that a property allows is of another type than is said: all schemas of JSON-Schema-Test-Suite', () => {
  const types = new Set<string>();
  for (const { schema, tests } of suite) {
    const whole = object({ it: schema });
    const checked = enforced(whole);
    if (checked instanceof UnsupportedSchema) continue;
    const type = declaredProperties(whole)?.[0]?.type ?? 'json';
    types.add(type);
    const others = tests.filter(
      ({ data }) => data !== null && checked.problem({ it: data }) === undefined && !FITS[type](data),
    );
    expect([schema, type, others]).toEqual([schema, type, []]);
  }
  expect([...types].sort()).toEqual(['boolean', 'integer', 'json', 'number', 'string', 'string[]']);
});

test('no value that a property allows is of another type than is said: schemas made up of types, constants and choices', () => {
  const value = fc.oneof(
    fc.integer(),
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    fc.string(),
    fc.boolean(),
    fc.constant(null),
    fc.constant([1]),
    fc.constant({ a: 1 }),
  );
  const type = fc.constantFrom('string', 'integer', 'number', 'boolean', 'null', 'array', 'object');
  const leaf = fc.oneof(
    fc.record({ type }),
    fc.record({ type: fc.uniqueArray(type, { minLength: 1, maxLength: 3 }) }),
    fc.record({ enum: fc.array(value, { minLength: 1, maxLength: 3 }) }),
    fc.record({ const: value }),
  );
  const tree = fc.oneof(
    leaf,
    fc.record({ anyOf: fc.array(leaf, { minLength: 1, maxLength: 3 }) }),
    fc.record({ allOf: fc.array(leaf, { minLength: 1, maxLength: 2 }), anyOf: fc.array(leaf, { minLength: 1 }) }),
  );
  fc.assert(
    fc.property(tree, value, (schema, data) => {
      const whole = object({ it: schema });
      const [declared] = declaredProperties(whole) ?? [];
      const checked = enforced(whole);
      fc.pre(data !== null && !(checked instanceof UnsupportedSchema) && checked.problem({ it: data }) === undefined);
      expect(FITS[declared?.type ?? 'json'](data)).toBe(true);
    }),
  );
});
