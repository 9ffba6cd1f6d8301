import { found } from '../arguments/found.js';
import { isObject } from '../arguments/isObject.js';

/** JSON data, whose objects have no prototype: names such as `constructor` are names like any other. */
export type Json = null | boolean | number | string | readonly Json[] | JsonObject;
export interface JsonObject {
  readonly [name: string]: Json | undefined;
}

export const TYPES = ['null', 'boolean', 'number', 'string', 'array', 'object'] as const;
export type TypeName = (typeof TYPES)[number];

type Shape =
  | 'schema'
  | 'schemas'
  | 'map of schemas'
  | 'text'
  | 'switch'
  | 'count'
  | 'number'
  | 'divisor'
  | 'names'
  | 'lists of names'
  | 'types'
  | 'values'
  | 'value';

/**
 * The keywords of JSON Schema 2020-12 that say which values are valid, or where a schema is, and what each must hold;
 * those of earlier drafts are read as these (`drafts.ts`). Everything else is an annotation, and says nothing.
 */
export const KEYWORDS: ReadonlyMap<string, Shape> = new Map<string, Shape>([
  ['$id', 'text'],
  ['$schema', 'text'],
  ['$ref', 'text'],
  ['$anchor', 'text'],
  ['$dynamicRef', 'text'],
  ['$dynamicAnchor', 'text'],
  ['$defs', 'map of schemas'],
  ['definitions', 'map of schemas'],
  ['allOf', 'schemas'],
  ['anyOf', 'schemas'],
  ['oneOf', 'schemas'],
  ['not', 'schema'],
  ['if', 'schema'],
  ['then', 'schema'],
  ['else', 'schema'],
  ['type', 'types'],
  ['enum', 'values'],
  ['const', 'value'],
  ['minimum', 'number'],
  ['maximum', 'number'],
  ['exclusiveMinimum', 'number'],
  ['exclusiveMaximum', 'number'],
  ['multipleOf', 'divisor'],
  ['minLength', 'count'],
  ['maxLength', 'count'],
  ['pattern', 'text'],
  ['format', 'text'],
  ['prefixItems', 'schemas'],
  ['items', 'schema'],
  ['contains', 'schema'],
  ['minContains', 'count'],
  ['maxContains', 'count'],
  ['minItems', 'count'],
  ['maxItems', 'count'],
  ['uniqueItems', 'switch'],
  ['unevaluatedItems', 'schema'],
  ['properties', 'map of schemas'],
  ['patternProperties', 'map of schemas'],
  ['additionalProperties', 'schema'],
  ['propertyNames', 'schema'],
  ['unevaluatedProperties', 'schema'],
  ['required', 'names'],
  ['minProperties', 'count'],
  ['maxProperties', 'count'],
  ['dependentRequired', 'lists of names'],
  ['dependentSchemas', 'map of schemas'],
]);

/** Says in words what is wrong with a keyword's value; undefined where nothing is. */
export function wrongValue(keyword: string, value: Json): string | undefined {
  const shape = KEYWORDS.get(keyword);
  const expected = shape === undefined ? undefined : EXPECTED[shape](value);
  return expected === undefined ? undefined : `found ${found(value)}, expected ${expected}`;
}

const EXPECTED: Readonly<Record<Shape, (value: Json) => string | undefined>> = {
  schema: (value) =>
    isSchema(value) ? undefined : Array.isArray(value) ? 'a schema (a list of schemas is `prefixItems`)' : 'a schema',
  schemas: (value) =>
    Array.isArray(value) && value.length > 0 && value.every(isSchema) ? undefined : 'a list of at least one schema',
  'map of schemas': (value) =>
    isObject(value) && Object.values(value).every(isSchema) ? undefined : 'an object with schemas',
  text: (value) => (typeof value === 'string' ? undefined : 'a string'),
  switch: (value) => (typeof value === 'boolean' ? undefined : 'true or false'),
  count: (value) => (Number.isSafeInteger(value) && (value as number) >= 0 ? undefined : 'a whole number, not below 0'),
  number: (value) => (Number.isFinite(value) ? undefined : 'a number'),
  divisor: (value) => (Number.isFinite(value) && (value as number) > 0 ? undefined : 'a number above 0'),
  names: (value) => (isNames(value) ? undefined : 'a list of names'),
  'lists of names': (value) =>
    isObject(value) && Object.values(value).every(isNames) ? undefined : 'an object with lists of names',
  types: (value) =>
    (Array.isArray(value) ? value.length > 0 && value.every(isType) : isType(value))
      ? undefined
      : `one or several of ${TYPES.join(', ')}, integer`,
  values: (value) => (Array.isArray(value) && value.length > 0 ? undefined : 'a list of at least one value'),
  value: () => undefined,
};

function isSchema(value: unknown): boolean {
  return typeof value === 'boolean' || isObject(value);
}

function isNames(value: unknown): boolean {
  return Array.isArray(value) && value.every((name) => typeof name === 'string');
}

function isType(value: unknown): boolean {
  return value === 'integer' || TYPES.some((name) => name === value);
}

/** Where a schema has schemas, in its order: each with the rest of its pointer. */
export function* subschemas(schema: JsonObject): Generator<readonly [pointer: string, schema: Json], void, undefined> {
  for (const [keyword, value] of Object.entries(schema)) {
    const shape = KEYWORDS.get(keyword === 'contentSchema' ? 'not' : keyword);
    if (value === undefined) continue;
    if (shape === 'schema') yield [`/${keyword}`, value];
    else if (shape === 'schemas')
      for (const [at, one] of (value as readonly Json[]).entries()) yield [`/${keyword}/${at}`, one];
    else if (shape === 'map of schemas')
      for (const [name, one] of Object.entries(value as JsonObject))
        if (one !== undefined) yield [`/${keyword}/${escaped(name)}`, one];
  }
}

/** A name as it stands in a JSON pointer. */
export function escaped(name: string): string {
  return name.replaceAll('~', '~0').replaceAll('/', '~1');
}
