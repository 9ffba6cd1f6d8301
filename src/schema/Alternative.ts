import type { Work } from '../collections/drained.js';
import { Steps } from '../regex/Steps.js';
import { type Json, type JsonObject, type TypeName, TYPES } from './keywords.js';
import type { SchemaDocument, Subschema } from './SchemaDocument.js';

/** A schema that a value satisfies, or does not. */
export interface Goal {
  readonly schema: Subschema;
  readonly holds: boolean;
}

export interface NumberRule {
  readonly minimum?: number;
  readonly exclusiveMinimum?: number;
  readonly maximum?: number;
  readonly exclusiveMaximum?: number;
  readonly multipleOf: readonly number[];
  readonly integer: boolean;
}

export interface StringRule {
  readonly minLength: number;
  readonly maxLength?: number;
  /** Translated patterns, all of which match. */
  readonly patterns: readonly string[];
  readonly formats: readonly string[];
}

/** The goals that one schema sets a list's items, in their order; undefined says nothing. */
export interface ItemsLayer {
  readonly prefix: readonly (Goal | undefined)[];
  readonly rest: Goal | undefined;
}

/** The goals that one schema sets an object's properties. */
export interface PropertiesLayer {
  readonly properties: ReadonlyMap<string, Goal | undefined>;
  /** By translated patterns: what all that translate alike say. */
  readonly patterns: ReadonlyMap<string, readonly Goal[]>;
  /** Properties that neither names nor patterns speak of. */
  readonly rest: Goal | undefined;
}

export interface ListRule {
  readonly minItems: number;
  readonly maxItems?: number;
  /** No two items are alike. */
  readonly unique: boolean;
  readonly layers: readonly ItemsLayer[];
}

export interface ObjectRule {
  readonly minProperties: number;
  readonly maxProperties?: number;
  readonly required: readonly string[];
  readonly absent: ReadonlySet<string>;
  /** Goals that names satisfy. */
  readonly names: readonly Goal[];
  readonly layers: readonly PropertiesLayer[];
}

/** The parts that `unevaluatedProperties` and `unevaluatedItems` leave alone. */
export interface Evaluated {
  readonly names: ReadonlySet<string> | 'all';
  readonly patterns: ReadonlySet<string>;
  readonly items: number;
}

/**
 * One of the ways in which a value is valid: no choice is left in it, but for what lies in its properties and items.
 */
export interface Alternative {
  readonly types: ReadonlySet<TypeName>;
  /** Where only some values are possible at all: they have still to be looked at. */
  readonly values?: readonly Json[];
  readonly number: NumberRule;
  readonly string: StringRule;
  readonly list: ListRule;
  readonly object: ObjectRule;
  readonly evaluated: Evaluated;
}

const NOTHING: Alternative = {
  types: new Set(TYPES),
  number: { multipleOf: [], integer: false },
  string: { minLength: 0, patterns: [], formats: [] },
  list: { minItems: 0, unique: false, layers: [] },
  object: { minProperties: 0, required: [], absent: new Set(), names: [], layers: [] },
  evaluated: { names: new Set(), patterns: new Set(), items: 0 },
};

type Rules = 'number' | 'string' | 'list' | 'object' | 'evaluated';

/** An alternative that says what is given, and no more. */
export function alternative({
  types,
  values,
  ...rules
}: { types?: readonly TypeName[]; values?: readonly Json[] } & {
  [Rule in Rules]?: Partial<Alternative[Rule]>;
}): Alternative {
  const whole = Object.fromEntries(
    Object.entries(rules).map(([name, rule]) => [name, { ...NOTHING[name as Rules], ...rule }]),
  );
  return { ...NOTHING, ...whole, ...(types && { types: new Set(types) }), ...(values && { values }) };
}

/** Joins what both say; undefined where nothing can satisfy both. */
export function both(a: Alternative, b: Alternative): Alternative | undefined {
  if (a === NOTHING) return b;
  const types = new Set([...a.types].filter((type) => b.types.has(type)));
  if (types.size === 0) return undefined;
  const values = a.values && b.values ? common(a.values, b.values) : (a.values ?? b.values);
  if (values?.length === 0) return undefined;
  return {
    types,
    ...(values && { values }),
    number: {
      ...extreme(a.number, b.number),
      multipleOf: [...new Set([...a.number.multipleOf, ...b.number.multipleOf])],
      integer: a.number.integer || b.number.integer,
    },
    string: {
      ...upTo('maxLength', a.string, b.string),
      minLength: Math.max(a.string.minLength, b.string.minLength),
      patterns: [...new Set([...a.string.patterns, ...b.string.patterns])],
      formats: [...new Set([...a.string.formats, ...b.string.formats])],
    },
    list: {
      ...upTo('maxItems', a.list, b.list),
      minItems: Math.max(a.list.minItems, b.list.minItems),
      unique: a.list.unique || b.list.unique,
      layers: [...a.list.layers, ...b.list.layers],
    },
    object: {
      ...upTo('maxProperties', a.object, b.object),
      minProperties: Math.max(a.object.minProperties, b.object.minProperties),
      required: [...new Set([...a.object.required, ...b.object.required])],
      absent: new Set([...a.object.absent, ...b.object.absent]),
      names: [...a.object.names, ...b.object.names],
      layers: [...a.object.layers, ...b.object.layers],
    },
    evaluated: {
      names:
        a.evaluated.names === 'all' || b.evaluated.names === 'all'
          ? 'all'
          : new Set([...a.evaluated.names, ...b.evaluated.names]),
      patterns: new Set([...a.evaluated.patterns, ...b.evaluated.patterns]),
      items: Math.max(a.evaluated.items, b.evaluated.items),
    },
  };
}

/** How much a way says, and putting it together with another has to go through. */
export function sizeOf({ values, number, string, list, object, evaluated: { names, patterns } }: Alternative): number {
  return (
    (values?.length ?? 0) +
    number.multipleOf.length +
    string.patterns.length +
    string.formats.length +
    list.layers.length +
    object.required.length +
    object.absent.size +
    object.names.length +
    object.layers.length +
    (names === 'all' ? 0 : names.size) +
    patterns.size
  );
}

function extreme(
  a: NumberRule,
  b: NumberRule,
): Pick<NumberRule, 'minimum' | 'maximum' | 'exclusiveMinimum' | 'exclusiveMaximum'> {
  return {
    ...pick('minimum', Math.max, a, b),
    ...pick('exclusiveMinimum', Math.max, a, b),
    ...pick('maximum', Math.min, a, b),
    ...pick('exclusiveMaximum', Math.min, a, b),
  };
}

function upTo<Name extends string>(
  name: Name,
  a: { readonly [Key in Name]?: number },
  b: { readonly [Key in Name]?: number },
): { [Key in Name]?: number } {
  return pick(name, Math.min, a, b);
}

function pick<Name extends string>(
  name: Name,
  choose: (...numbers: number[]) => number,
  a: { readonly [Key in Name]?: number },
  b: { readonly [Key in Name]?: number },
): { [Key in Name]?: number } {
  const given = [a[name], b[name]].filter((number) => number !== undefined);
  return given.length === 0 ? {} : ({ [name]: choose(...given) } as { [Key in Name]?: number });
}

export function typeOf(value: Json): TypeName {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  const type = typeof value;
  return type === 'boolean' || type === 'number' || type === 'string' ? type : 'object';
}

/** Equality of JSON data, whatever the order of keys. */
export function same(a: Json, b: Json): boolean {
  return canonical(a) === canonical(b);
}

/** Gives the values also among the others. */
export function common(values: readonly Json[], others: readonly Json[]): readonly Json[] {
  const [{ each }, { all }] = [textsOf(values), textsOf(others)];
  const kept = values.filter((_, at) => all.has(each[at] ?? ''));
  const texts = each.filter((text) => all.has(text));
  TEXTS.set(kept, { each: texts, all: new Set(texts) });
  return kept;
}

/** One text for equal values. */
export function canonical(value: Json): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${(value as readonly Json[]).map(canonical).join()}]`;
  const members = Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1));
  const texts = members.flatMap(([name, member]) =>
    member === undefined ? [] : [`${JSON.stringify(name)}:${canonical(member)}`],
  );
  return `{${texts.join()}}`;
}

/** The same in slices. @throws StepLimit */
export function* canonicalInParts(value: Json, steps: Steps): Work<string> {
  if (typeof value !== 'object' || value === null) return scalarText(value, steps);
  steps.take(1);
  const texts: string[] = [];
  if (Array.isArray(value)) {
    for (const one of value as readonly Json[]) {
      if (steps.due) yield;
      texts.push(typeof one === 'object' ? yield* canonicalInParts(one, steps) : scalarText(one, steps));
    }
    return `[${texts.join()}]`;
  }
  const members = Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1));
  for (const [name, member] of members) {
    if (steps.due) yield;
    if (member !== undefined) texts.push(`${JSON.stringify(name)}:${yield* canonicalInParts(member, steps)}`);
  }
  return `{${texts.join()}}`;
}

function scalarText(value: Json, steps: Steps): string {
  const text = JSON.stringify(value);
  steps.take(text.length);
  return text;
}

/** Values, each as its one text. */
interface Texts {
  readonly each: readonly string[];
  readonly all: ReadonlySet<string>;
}

/** Made once of each list, for it is asked for again and again. */
const TEXTS = new WeakMap<readonly Json[], Texts>();

function textsOf(values: readonly Json[]): Texts {
  const known = TEXTS.get(values);
  return known ?? keptTexts(values, values.map(canonical));
}

function keptTexts(values: readonly Json[], each: readonly string[]): Texts {
  const texts = { each, all: new Set(each) };
  TEXTS.set(values, texts);
  return texts;
}

/** The texts of a list's values, made in slices: who asks for them afterwards has them at once. */
export function* textsInParts(values: readonly Json[]): Work<ReadonlySet<string>> {
  const known = TEXTS.get(values);
  if (known !== undefined) return known.all;
  // Nobody's: whoever comes first would pay for all.
  const steps = new Steps(Number.MAX_SAFE_INTEGER);
  const each: string[] = [];
  for (const value of values) {
    each.push(yield* canonicalInParts(value, steps));
    if (steps.due) yield;
  }
  return keptTexts(values, each).all;
}

/** Every value. */
export const ANY: Alternative = NOTHING;

/** Anything but an object with the property. */
export function without(name: string): Alternative {
  return alternative({ object: { absent: new Set([name]) } });
}

/** An object with these properties. */
export function withAll(...names: readonly string[]): Alternative {
  return alternative({ types: ['object'], object: { required: names } });
}

/** One keyword of a schema. */
export interface Place {
  readonly schema: Subschema;
  readonly keyword: string;
  readonly value: Json;
  /** All keywords of the schema. */
  readonly siblings: JsonObject;
}

/** In which ways values satisfy schemas: what an `Expander` answers to those that it asks itself. */
export interface Ways {
  readonly document: SchemaDocument;
  ways(goal: Goal, annotated?: boolean): Work<readonly Alternative[]>;
  /** The ways of each goal. */
  waysOfEach(goals: readonly Goal[], annotated?: boolean): Work<readonly (readonly Alternative[])[]>;
  knownWays(goal: Goal): Work<readonly Alternative[] | undefined>;
  together(
    sets: readonly (readonly Alternative[])[],
    place: Pick<Place, 'schema' | 'keyword'>,
  ): Work<readonly Alternative[]>;
  goal(schema: Subschema, rest: string, holds?: boolean): Goal;
  limited(ways: readonly Alternative[], place: Pick<Place, 'schema' | 'keyword'>): readonly Alternative[];
  target(place: Place): Subschema;
  /** Leaves what a keyword says to the look at the whole value. */
  leave(place: Pick<Place, 'schema' | 'keyword'>): void;
}
