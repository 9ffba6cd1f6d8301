import { describe, expect, jest, test } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { Script } from 'node:vm';
import { EnforcedSchema } from '../../src/schema/EnforcedSchema.js';
import { FORMATS } from '../../src/schema/formats.js';
import { KEYWORDS } from '../../src/schema/keywords.js';
import { UnsupportedSchema } from '../../src/schema/SchemaDocument.js';
import { enforced, suite } from '../support/jsonSchemaSuite.js';
import { cpuSeconds } from '../model/support/expectBounded.js';

const refusal = (schema: unknown): Pick<UnsupportedSchema, 'pointer' | 'keyword' | 'message'> => {
  const refused = enforced(schema);
  if (refused instanceof EnforcedSchema) throw new Error(`enforced: ${JSON.stringify(refused.grammar)}`);
  return refused;
};
const grammar = (schema: unknown): unknown => {
  const { 'x-guidance': _written, ...rest } = JSON.parse(JSON.stringify(new EnforcedSchema(schema).grammar)) as Record<
    string,
    unknown
  >;
  return rest;
};
const bool = { type: 'boolean' };
const person = {
  type: 'object',
  properties: { name: { type: 'string' }, age: { type: 'integer', minimum: 0 } },
  required: ['name', 'age'],
  additionalProperties: false,
};

describe('a schema that answers are held to', () => {
  test('keeps the order of its properties, and says what was meant', () => {
    expect(grammar(person)).toEqual({
      type: 'object',
      properties: {
        name: { type: 'string', maxLength: 8192 },
        age: { type: 'integer', minimum: 0, maximum: Number.MAX_SAFE_INTEGER },
      },
      required: ['name', 'age'],
      additionalProperties: false,
    });
    const open = {
      type: 'object',
      required: ['z', 'a'],
      allOf: [{ properties: { b: true, a: true } }],
      properties: { c: true },
    };
    expect(Object.keys((grammar(open) as { properties: object }).properties)).toEqual(['b', 'a', 'c', 'z']);
  });

  test('says what is wrong with a value', () => {
    const schema = new EnforcedSchema(person);
    expect(schema.problem({ name: 'A', age: 3 })).toBeUndefined();
    expect(schema.problem({ name: 'A', age: 3.5 })).toMatch(/age.*integer/);
    expect(schema.problem(JSON.parse('{"name":"A","age":3,"__proto__":1}'))).toMatch(/__proto__/);
  });

  test.each([
    ['what lies elsewhere', { $ref: 'https://example.com/x.json' }, '/$ref', '$ref'],
    ['no value at all', { type: 'string', enum: [1] }, '', 'false'],
    [
      'a property that refers to its own object for ever',
      { type: 'object', properties: { next: { $ref: '#' } }, required: ['next'] },
      '',
      'false',
    ],
    ['a schema that is itself', { $ref: '#' }, '', '$ref'],
    [
      'a keyword with another kind of value',
      { properties: { a: { minLength: 'x' } } },
      '/properties/a/minLength',
      undefined,
    ],
    [
      'lists of schemas where one is meant',
      { $schema: 'https://json-schema.org/draft/2020-12/schema', items: [{ type: 'string' }] },
      '/items',
      undefined,
    ],
    ['what is no pattern, with its place', { properties: { a: { pattern: '(' } } }, '/properties/a/pattern', 'pattern'],
    ['a draft that is not known', { $schema: 'http://json-schema.org/draft-03/schema#' }, '/$schema', '$schema'],
    [
      'what is wrong in an earlier draft, by the name that it has there',
      { $schema: 'http://json-schema.org/draft-07/schema#', dependencies: { a: ['b', 1] } },
      '/dependencies',
      undefined,
    ],
  ])('refuses %s', (_what, schema, pointer, keyword) => {
    expect(refusal(schema)).toMatchObject({ pointer, keyword });
  });

  test.each<[string, unknown]>([
    ['no schema', 'x'],
    ['no JSON', { type: 'string', default: 1n }],
    ['deep nesting', Array.from({ length: 100 }).reduce((inner) => ({ items: inner }), {})],
    ['a megabyte of enum', { enum: Array.from({ length: 2 ** 17 }, (_, at) => `value ${at}`) }],
    ['many schemas', { anyOf: Array.from({ length: 20_000 }, () => true) }],
    [
      'many combinations',
      {
        allOf: Array.from({ length: 12 }, (_, at) => ({ anyOf: [{ required: [`a${at}`] }, { required: [`b${at}`] }] })),
      },
    ],
    ['repetitions of repetitions', { pattern: '((a{1,500}){1,500}){1,500}' }],
    [
      'names that a pattern backtracks on',
      { patternProperties: { '^(a+)+$': true }, properties: { [`${'a'.repeat(40)}!`]: true, b: true } },
    ],
  ])('refuses or bounds %s, soon', (_what, schema) => {
    const start = process.cpuUsage();
    const result = enforced(schema);
    expect(cpuSeconds(start)).toBeLessThan(3);
    if (result instanceof UnsupportedSchema) expect(result.message).toMatch(/^schema, at .*: found .*|takes longer/);
  });

  test('a pattern that V8 would backtrack on for years is looked for in steps, and its answer known', () => {
    const schema = new EnforcedSchema({ pattern: '^(([a-z])+.)+[A-Z]([a-z])+$' });
    expect(schema.problem('a'.repeat(6000))).toMatch(/does not match pattern/);
    expect(schema.problem(`${'a'.repeat(6000)}Bc`)).toBeUndefined();
  });

  test('no clock decides: however late it is, values are looked at', () => {
    const clock = jest.spyOn(performance, 'now').mockImplementation(() => Infinity);
    const set = jest.spyOn(Script.prototype, 'runInContext').mockImplementation(() => {
      throw Object.assign(new Error('late'), { code: 'ERR_SCRIPT_EXECUTION_TIMEOUT' });
    });
    const schema = new EnforcedSchema({ enum: Array.from({ length: 3000 }, (_, i) => `c ${i * 7919}`) });
    expect([schema.problem('c 7919'), schema.problem('c')]).toEqual([undefined, expect.any(String)]);
    clock.mockRestore();
    set.mockRestore();
  });

  test('a value that takes too many steps says so, each time', () => {
    const schema = new EnforcedSchema({
      items: { anyOf: Array.from({ length: 2000 }, (_, i) => ({ minItems: i })) },
    });
    const value = Array.from({ length: 1000 }, () => [1]);
    expect([schema.problem(value), schema.problem(value)]).toEqual(
      Array(2).fill('it cannot be looked at in 750000 steps'),
    );
  });
});

describe('ranges of numbers', () => {
  test.each([
    { type: 'integer', minimum: 1e20 },
    { type: 'integer', exclusiveMinimum: 2 ** 63, maximum: 2 ** 64 },
    { type: 'number', maximum: -1e300 },
    { type: 'integer', exclusiveMaximum: -(2 ** 63) },
  ])('%j lies where no number can be written', (schema) => {
    expect(refusal(schema)).toMatchObject({
      pointer: '',
      message: expect.stringContaining('or none that can be written') as unknown,
    });
  });

  test('are written as far as integers of 64 bits go that doubles are, too', () => {
    expect(grammar({ type: 'integer', minimum: -(2 ** 63), maximum: 2 ** 64 })).toEqual({
      type: 'integer',
      minimum: 1024 - 2 ** 63,
      maximum: 2 ** 63 - 1024,
    });
    expect(grammar({ type: 'integer', minimum: 5, maximum: 2 ** 62 })).toMatchObject({ minimum: 5, maximum: 2 ** 62 });
  });
});

test('a divisor that the engine cannot count in is left to the look at the value', () => {
  const hundredths = Array.from({ length: 100 }, (_, at) => (at + 1) / 100);
  const left = hundredths.filter((multipleOf) => new EnforcedSchema({ multipleOf }).left.length > 0);
  expect(left).toHaveLength(14);
  for (const multipleOf of [...left, 0.12345678901, 1e-11, 12345678901, 5e9]) {
    const schema = new EnforcedSchema({ multipleOf });
    expect(schema.left).toEqual(['/multipleOf']);
    expect([schema.problem(multipleOf), schema.problem(1.5 * multipleOf)]).toEqual([
      undefined,
      expect.stringContaining('multiple'),
    ]);
  }
  for (const multipleOf of [1e-9, 0.05, 2.5, 10_000]) expect(new EnforcedSchema({ multipleOf }).left).toEqual([]);
});

describe('numbers of properties', () => {
  const properties = { a: bool, b: bool, c: bool };
  const base = { type: 'object', properties };

  test('are kept where only listed names may be', () => {
    const schema = { ...base, minProperties: 2, additionalProperties: false };
    const { anyOf } = grammar(schema) as { anyOf: readonly { required: readonly string[] }[] };
    expect(anyOf.map(({ required }) => required.join('')).sort()).toEqual(['ab', 'ac', 'bc']);
    expect(grammar({ ...schema, minProperties: 3 })).toMatchObject({ required: ['a', 'b', 'c'] });
    expect(refusal({ ...schema, minProperties: 4 })).toMatchObject({ pointer: '', keyword: 'false' });
    expect(new EnforcedSchema(schema).left).toEqual([]);
  });

  test('are left to the look at the value where the same other name might count twice, and where sets are too many', () => {
    expect(grammar({ ...base, minProperties: 1 })).toHaveProperty('anyOf');
    const twice = new EnforcedSchema({ ...base, minProperties: 2 });
    expect(twice.left).toEqual(['/minProperties']);
    expect(twice.problem({ x: 1 })).toMatch(/properties/);
    const many = Object.fromEntries(Array.from({ length: 30 }, (_, at) => [`p${at}`, bool]));
    expect(new EnforcedSchema({ type: 'object', properties: many, minProperties: 1 }).left).toEqual([]);
    expect(new EnforcedSchema({ type: 'object', properties: many, minProperties: 3 }).left).toEqual(['/minProperties']);
  });
});

describe('patterns of names', () => {
  test('that mean the same hold together', () => {
    const one = (pattern: string, other: string): object => ({
      type: 'object',
      patternProperties: { [pattern]: { type: ['integer', 'boolean'] }, [other]: { type: ['boolean', 'string'] } },
      additionalProperties: false,
    });
    for (const [pattern, other] of [
      ['^[0-9]$', '^\\d$'],
      ['^(a|b)$', '^(?:a|b)$'],
    ] as const) {
      const schema = new EnforcedSchema(one(pattern, other));
      expect(Object.values((grammar(one(pattern, other)) as { patternProperties: object }).patternProperties)).toEqual([
        { type: 'boolean' },
      ]);
      const name = pattern === '^[0-9]$' ? '7' : 'a';
      expect([1, true, 'x'].map((value) => schema.problem({ [name]: value }) === undefined)).toEqual([
        false,
        true,
        false,
      ]);
    }
  });

  test('are left out where no value is of them, and no other name is either', () => {
    const [x, open] = [{ '^x-': { type: 'boolean' } }, { 'x-id': { type: 'boolean' }, name: true }];
    const schema = {
      allOf: [
        { type: 'object', patternProperties: x },
        { properties: open, additionalProperties: false },
      ],
    };
    expect(grammar(schema)).toMatchObject({ properties: { 'x-id': { type: 'boolean' } }, additionalProperties: false });
    expect(grammar(schema)).not.toHaveProperty('patternProperties');
  });

  test.each<[string, object, string]>([
    [
      'a schema of their own beside one of the name',
      { allOf: [{ patternProperties: { '^x-': true } }, { properties: { 'x-id': true }, additionalProperties: bool }] },
      '/allOf/0/patternProperties',
    ],
    [
      'names that are listed with other values',
      { propertyNames: { pattern: '^[a-z]+$' }, properties: { ab: { type: 'null' } }, additionalProperties: bool },
      '/propertyNames',
    ],
    [
      'objects, also in the one that is listed',
      { properties: { ab: { type: 'object' } }, patternProperties: { '^a': { type: 'object' } } },
      '/patternProperties',
    ],
    [
      'names that two of them match',
      { patternProperties: { a: { type: 'integer' }, b: { minimum: 1 } } },
      '/patternProperties',
    ],
  ])('are left to the look at the value where the engine would change what is listed: %s', (_what, schema, pointer) => {
    const { left, grammar: written } = new EnforcedSchema({ type: 'object', ...schema });
    expect(left).toEqual([pointer]);
    const { patternProperties = {} } = written as { patternProperties?: object };
    expect(Object.keys(patternProperties).length).toBeLessThan(2);
  });

  test('of few names list those that are left, unless that takes a longer pattern than can be compiled', () => {
    const patterns = (pattern: string): string[] =>
      Object.keys(
        (
          grammar({
            type: 'object',
            patternProperties: { [pattern]: bool },
            properties: { a1: bool },
            additionalProperties: false,
          }) as { patternProperties: object }
        ).patternProperties,
      );
    expect(patterns('^a[0-3]$')).toEqual(['^(?:a0|a2|a3)$']);
    const many = '^(?:a1|-{20}[0-9]{2})$';
    expect(patterns(many)).toEqual(['^(?:(?:a1|\\u{2d}{20}[0-9]{2}))$']);
  });

  test('hold beside what is said of the name itself', () => {
    const schema = {
      type: 'object',
      properties: { x1: { type: ['integer', 'boolean'] } },
      patternProperties: { '^x.*': { type: ['boolean', 'null'] } },
      required: ['x1'],
      additionalProperties: false,
    };
    expect((grammar(schema) as { properties: object }).properties).toEqual({ x1: { type: 'boolean' } });
  });
});

describe('the schemas of JSON-Schema-Test-Suite', () => {
  const results = suite.map((one) => ({ ...one, result: enforced(one.schema) }));
  const documented = new Set(
    Array.from(readFileSync('docs/structured-output.md', 'utf8').matchAll(/^\| (`[^|]*) \|/gm), ([, cell = '']) =>
      Array.from(cell.matchAll(/`([^`]+)`/g), ([, name]) => name),
    ).flat(),
  );

  test('are enforced, nine tenths of them, or refused with a keyword that the documents list', () => {
    const refused = results.flatMap(({ name, result }) =>
      result instanceof UnsupportedSchema ? [{ name, keyword: result.keyword ?? result.pointer }] : [],
    );
    expect(results.length - refused.length).toBeGreaterThanOrEqual(0.9 * results.length);
    // The one that is no schema: an enum of nothing.
    expect(refused.filter(({ keyword }) => !documented.has(keyword)).map(({ name }) => name)).toEqual([
      'enum.json: empty enum',
      'draft2019-09/enum.json: empty enum',
    ]);
  });

  test('mean to the check of values what the suite says', () => {
    const wrong = results.flatMap(({ name, tests, result }) =>
      result instanceof EnforcedSchema
        ? tests
            .filter(({ data, valid }) => (result.problem(data) === undefined) !== valid)
            .map(({ description }) => `${name}: ${description}`)
        : [],
    );
    expect(wrong).toEqual([]);
  });

  test('every keyword and format that is known is documented', () => {
    for (const name of [...KEYWORDS.keys(), ...FORMATS.keys()])
      expect([name, documented.has(name)]).toEqual([name, true]);
  });
});
