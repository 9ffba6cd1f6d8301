import { isObject } from '../arguments/isObject.js';
import { escaped, TYPES, type Json, type JsonObject, type TypeName } from './keywords.js';
import { SCHEMA_LIMITS } from './limits.js';
import { SchemaDocument, type Subschema } from './SchemaDocument.js';

type ScalarType = 'string' | 'integer' | 'number' | 'boolean';

/**
 * The type of a property's values that are not null: lists of one type, `json` where they are other lists, objects, or
 * of several types.
 */
export type PropertyType = ScalarType | `${ScalarType}[]` | 'json';

/** A property that a schema speaks of by name. */
export interface DeclaredProperty {
  readonly name: string;
  readonly type: PropertyType;
}

/**
 * The properties of the objects that a schema asks for, in its order; undefined where its root, or what that refers to,
 * is not plainly an object with `properties`: a list, alternatives, any object.
 * @throws UnsupportedSchema for what is no schema, and for a reference into nowhere
 */
export function declaredProperties(schema: unknown): readonly DeclaredProperty[] | undefined {
  const document = SchemaDocument.of(schema);
  const kinds = new Kinds(document);
  const root = withProperties(document);
  if (root === undefined || [...kinds.of(document.root)].some((kind) => kind !== 'object')) return undefined;
  return Object.keys(root.properties).map((name) => ({
    name,
    type: kinds.typeAt(document.below(root.place, `/properties/${escaped(name)}`)),
  }));
}

/**
 * Gives the type of values that a schema allows.
 * @throws UnsupportedSchema for what is no schema, and for a reference into nowhere
 */
export function declaredType(schema: unknown): PropertyType {
  const document = SchemaDocument.of(schema);
  return new Kinds(document).typeAt(document.root);
}

/** Where the properties of a document's root are declared: in itself, or in what it refers to. */
function withProperties(
  document: SchemaDocument,
): { readonly place: Subschema; readonly properties: JsonObject } | undefined {
  for (const place of referred(document, document.root)) {
    const { properties } = isObject(place.schema) ? place.schema : {};
    if (isObject(properties) && Object.keys(properties).length > 0) return { place, properties };
  }
  return undefined;
}

/** A place, what it refers to, and so on; each once, for references may be a ring. */
function* referred(document: SchemaDocument, from: Subschema): Generator<Subschema> {
  const seen = new Set<number>();
  for (let place = from; !seen.has(place.id);) {
    seen.add(place.id);
    yield place;
    const { $ref: reference } = isObject(place.schema) ? place.schema : {};
    if (typeof reference === 'string') place = document.resolve(place, reference);
  }
}

/** A type; `number` is two of them, as `integer` is a part of it. */
type Kind = Exclude<TypeName, 'number'> | 'integer' | 'fraction';
type KindSet = ReadonlySet<Kind>;

const ALL: KindSet = new Set(TYPES.flatMap(kindsOfType));

/**
 * Which kinds of values a schema allows at most. What a keyword rules out only now and then (`not`, `if`) is left in.
 */
class Kinds {
  readonly #known = new Map<number, KindSet>();

  constructor(private readonly document: SchemaDocument) {}

  typeAt(place: Subschema): PropertyType {
    const kinds = this.of(place);
    if (!kinds.has('array') || [...kinds].some((kind) => kind !== 'array' && kind !== 'null')) return typeOf(kinds);
    const items = this.#itemsOf(place);
    const type = items && typeOf(this.of(items));
    return type === undefined || type === 'json' ? 'json' : `${type}[]`;
  }

  /** Finds the schema of all items of a list, where it says one itself, or what it refers to does. */
  #itemsOf(place: Subschema): Subschema | undefined {
    for (const at of referred(this.document, place)) {
      const { items, prefixItems } = isObject(at.schema) ? at.schema : {};
      if (isObject(items) && prefixItems === undefined) return this.document.below(at, '/items');
    }
    return undefined;
  }

  of(place: Subschema, depth = 0): KindSet {
    const known = this.#known.get(place.id);
    if (known !== undefined) return known;
    // References may be a ring, or a long chain: it says nothing more then.
    this.#known.set(place.id, ALL);
    const kinds = depth > SCHEMA_LIMITS.depth ? ALL : this.#of(place, depth + 1);
    this.#known.set(place.id, kinds);
    return kinds;
  }

  #of(place: Subschema, depth: number): KindSet {
    if (typeof place.schema === 'boolean') return place.schema ? ALL : new Set();
    const { type, enum: values, const: constant, $ref: reference } = place.schema;
    const each = (keyword: string): readonly KindSet[] => {
      const list = (place.schema as JsonObject)[keyword];
      return Array.isArray(list)
        ? list.map((_, at) => this.of(this.document.below(place, `/${keyword}/${at}`), depth))
        : [];
    };
    const unions = ['anyOf', 'oneOf']
      .map(each)
      .filter((kinds) => kinds.length > 0)
      .map(union);
    return [
      ...(type === undefined ? [] : [union([type].flat().map((name) => new Set(kindsOfType(name as TypeName))))]),
      ...(Array.isArray(values) ? [new Set((values as readonly Json[]).map(kindOf))] : []),
      ...(constant === undefined ? [] : [new Set([kindOf(constant)])]),
      ...(typeof reference === 'string' ? [this.of(this.document.resolve(place, reference), depth)] : []),
      ...unions,
      ...each('allOf'),
    ].reduce<KindSet>((all, kinds) => new Set([...all].filter((kind) => kinds.has(kind))), ALL);
  }
}

function union(sets: readonly KindSet[]): KindSet {
  return new Set(sets.flatMap((kinds) => [...kinds]));
}

function kindsOfType(name: TypeName | 'integer'): readonly Kind[] {
  return name === 'number' ? ['integer', 'fraction'] : [name];
}

function kindOf(value: Json): Kind {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  if (typeof value === 'number') return Number.isInteger(value) ? 'integer' : 'fraction';
  return typeof value as 'string' | 'boolean' | 'object';
}

function typeOf(kinds: KindSet): ScalarType | 'json' {
  const [first = 'null', ...others] = [...kinds].filter((kind) => kind !== 'null').sort();
  if (others.length === 0)
    return first === 'fraction'
      ? 'number'
      : first === 'string' || first === 'integer' || first === 'boolean'
        ? first
        : 'json';
  return others.length === 1 && first === 'fraction' && others[0] === 'integer' ? 'number' : 'json';
}
