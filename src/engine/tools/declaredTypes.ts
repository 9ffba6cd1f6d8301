import { isObject } from '../../arguments/isObject.js';

const TYPES = ['string', 'number', 'boolean', 'null', 'object', 'array'] as const;
export type JsonType = (typeof TYPES)[number];

/** References followed by references are followed so far. */
const MOST_DEPTH = 16;

/** A schema, and the place where its references are found. */
export interface PartOfSchema {
  readonly schema: unknown;
  readonly root: Readonly<Record<string, unknown>>;
}

/** The types that values of a schema may have, as far as it declares them; all where it does not. */
export function declaredTypes({ schema, root }: PartOfSchema, depth = 0): ReadonlySet<JsonType> {
  const all = new Set<JsonType>(TYPES);
  if (schema === false) return new Set();
  if (!isObject(schema) || depth > MOST_DEPTH) return all;
  const { type, enum: values, anyOf, oneOf, allOf, $ref } = schema;
  let types: ReadonlySet<JsonType> = all;
  const narrow = (to: ReadonlySet<JsonType>): void => {
    types = new Set([...types].filter((each) => to.has(each)));
  };
  if (typeof type === 'string') narrow(new Set(typeOf(type)));
  else if (Array.isArray(type)) narrow(new Set(type.flatMap(typeOf)));
  if (Array.isArray(values)) narrow(new Set(values.map(typeOfValue)));
  if (Object.hasOwn(schema, 'const')) narrow(new Set([typeOfValue(schema['const'])]));
  for (const choice of [anyOf, oneOf])
    if (Array.isArray(choice))
      narrow(new Set(choice.flatMap((each: unknown) => [...declaredTypes({ schema: each, root }, depth + 1)])));
  if (Array.isArray(allOf)) for (const each of allOf) narrow(declaredTypes({ schema: each, root }, depth + 1));
  if (typeof $ref === 'string') {
    const referred = referredTo($ref, root);
    if (referred !== undefined) narrow(declaredTypes({ schema: referred, root }, depth + 1));
  }
  return types;
}

/** Undefined where it is elsewhere, or nowhere. */
function referredTo(pointer: string, root: unknown): unknown {
  if (!pointer.startsWith('#/')) return undefined;
  return pointer
    .slice(2)
    .split('/')
    .map((name) => name.replace(/~1/g, '/').replace(/~0/g, '~'))
    .reduce<unknown>((at, name) => (isObject(at) && Object.hasOwn(at, name) ? at[name] : undefined), root);
}

function typeOf(type: unknown): readonly JsonType[] {
  return type === 'integer' ? ['number'] : TYPES.filter((each) => each === type);
}

export function typeOfValue(value: unknown): JsonType {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  return TYPES.find((type) => typeof value === type) ?? 'object';
}

/** Properties of an object's schema, required ones and others, in its order. */
export function propertiesOf(schema: Readonly<Record<string, unknown>>): readonly {
  readonly name: string;
  readonly schema: unknown;
  readonly required: boolean;
}[] {
  const { properties, required } = schema;
  const needed = new Set<unknown>(Array.isArray(required) ? required : []);
  return Object.entries(isObject(properties) ? properties : {}).map(([name, own]) => ({
    name,
    schema: own,
    required: needed.has(name),
  }));
}
