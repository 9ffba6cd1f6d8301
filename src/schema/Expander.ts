import type { Work } from '../collections/drained.js';
import {
  alternative,
  type Alternative,
  ANY,
  both,
  type Goal,
  type Place,
  type PropertiesLayer,
  sizeOf,
  textsInParts,
  type Ways,
  withAll,
  without,
} from './Alternative.js';
import { disjoint } from './disjoint.js';
import { FORMATS, JUDGED_FORMATS } from './formats.js';
import { escaped, type Json, type JsonObject, type TypeName, TYPES } from './keywords.js';
import { SCHEMA_LIMITS } from './limits.js';
import { negated } from './negated.js';
import { PatternProblem, translated } from './patterns.js';
import { relaxed } from './relaxed.js';
import { pointerOf, type SchemaDocument, type Subschema, UnsupportedSchema } from './SchemaDocument.js';

/** How much ways say together. */
function sizesOf(ways: readonly Alternative[]): number {
  return ways.reduce((sum, way) => sum + sizeOf(way), 0);
}

/** Steps that it takes to put two ways together, and to look at a schema, roughly. */
const [STEPS_A_WAY, STEPS_A_SCHEMA] = [100, 100];

/**
 * Says in which ways a value satisfies a schema: choices between subschemas are multiplied out, down to the value's own
 * properties and items. What no mask can say is left to the look at the whole value: values are valid in no other way
 * than these, but not each of these is valid.
 */
export class Expander implements Ways {
  readonly #underWay = new Set<string>();
  readonly #known = new Map<string, readonly Alternative[]>();
  /** Pointers of what is left to the look at the whole value. */
  readonly left = new Set<string>();

  constructor(readonly document: SchemaDocument) {}

  /**
   * @param annotated whether it matters which properties and items a schema speaks of: then subschemas that hold
   * together are a way of their own
   * @returns none where nothing satisfies it
   * @throws UnsupportedSchema
   */
  *ways({ schema, holds }: Goal, annotated = false): Work<readonly Alternative[]> {
    const { schema: keywords, id, pointer } = schema;
    if (typeof keywords === 'boolean') return keywords === holds ? [ANY] : [];
    const key = `${id} ${holds}`;
    if (this.#underWay.has(key))
      throw new UnsupportedSchema(
        pointer,
        '$ref',
        'found a schema that refers to itself with no property or item between, expected one that comes to an end',
      );
    const whole = `${key} ${annotated}`;
    const known = this.#known.get(whole);
    if (known !== undefined) return known;
    this.document.steps.take(STEPS_A_SCHEMA);
    if (this.document.steps.due) yield;
    this.#underWay.add(key);
    try {
      const ways = holds ? yield* this.#satisfied(schema, keywords, annotated) : yield* negated(this, schema, keywords);
      this.#known.set(whole, ways);
      return ways;
    } finally {
      this.#underWay.delete(key);
    }
  }

  /** The same, where they can be told: a property's schema may lead back to where its object's is looked at. */
  *knownWays(goal: Goal): Work<readonly Alternative[] | undefined> {
    try {
      return yield* this.ways(goal);
    } catch (error) {
      if (error instanceof UnsupportedSchema) return undefined;
      throw error;
    }
  }

  *waysOfEach(goals: readonly Goal[], annotated = false): Work<readonly (readonly Alternative[])[]> {
    const all: (readonly Alternative[])[] = [];
    for (const goal of goals) all.push(yield* this.ways(goal, annotated));
    return all;
  }

  /** The ways in which one of each hold together; those of sets that make them too many are left out. */
  *together(
    sets: readonly (readonly Alternative[])[],
    { schema, keyword }: Pick<Place, 'schema' | 'keyword'>,
  ): Work<readonly Alternative[]> {
    const { steps } = this.document;
    let ways: readonly Alternative[] = [ANY];
    let whole = true;
    for (const set of sets) {
      if (ways.length * set.length > SCHEMA_LIMITS.alternatives) {
        whole = false;
        continue;
      }
      const sizes = sizesOf(set);
      const made: Alternative[] = [];
      for (const way of ways) {
        steps.take(set.length * (STEPS_A_WAY + sizeOf(way)) + sizes);
        made.push(...set.flatMap((other) => both(way, other) ?? []));
        if (steps.due) yield;
      }
      ways = made;
    }
    if (whole) return ways;
    this.leave({ schema, keyword });
    return ways.map((way) => ({ ...way, evaluated: EVERYTHING.evaluated }));
  }

  /** The goal of a subschema. */
  goal(schema: Subschema, rest: string, holds = true): Goal {
    return { schema: this.document.below(schema, rest), holds };
  }

  leave({ schema, keyword }: Pick<Place, 'schema' | 'keyword'>): void {
    this.left.add(pointerOf(schema, `/${keyword}`));
  }

  /** A pattern of the schema, as one that masks can hold to; undefined where it is left. */
  pattern(place: Pick<Place, 'schema' | 'keyword'>, pattern: string): string | undefined {
    const whole = translatedOrNone(pattern);
    const written = whole === undefined ? undefined : relaxed(whole);
    if (written !== whole || written === undefined || written.length > SCHEMA_LIMITS.writtenPattern) this.leave(place);
    if (written === undefined || written.length > SCHEMA_LIMITS.writtenPattern) return undefined;
    // Names that match more would be said more of.
    return written === whole || place.keyword === 'pattern' ? written : undefined;
  }

  /** Where a reference leads. */
  target({ schema, keyword, value }: Place): Subschema {
    return keyword === '$ref'
      ? this.document.resolve(schema, value as string)
      : this.document.resolveDynamic(schema, value as string);
  }

  *#satisfied(schema: Subschema, siblings: JsonObject, annotatedAbove: boolean): Work<readonly Alternative[]> {
    const last = ['unevaluatedProperties', 'unevaluatedItems'].filter((keyword) => siblings[keyword] !== undefined);
    const annotated = annotatedAbove || last.length > 0;
    let ways: readonly Alternative[] = [ANY];
    for (const [keyword, value] of Object.entries(siblings)) {
      if (value === undefined) continue;
      const own = yield* this.#keyword({ schema, keyword, value, siblings }, annotated);
      if (own !== undefined) ways = yield* this.together([ways, own], { schema, keyword });
    }
    for (const keyword of last) ways = ways.flatMap((way) => both(way, this.#unevaluated(schema, keyword, way)) ?? []);
    return ways;
  }

  /** @returns undefined for what says nothing */
  *#keyword(place: Place, annotated: boolean): Work<readonly Alternative[] | undefined> {
    const { schema, keyword, value, siblings } = place;
    const goals = (): Goal[] => (value as readonly Json[]).map((_, at) => this.goal(schema, `/${keyword}/${at}`));
    switch (keyword) {
      case '$ref':
      case '$dynamicRef':
        return yield* this.ways({ schema: this.target(place), holds: true }, annotated);
      case 'allOf':
        return yield* this.together(yield* this.waysOfEach(goals(), annotated), place);
      case 'anyOf':
        return annotated
          ? yield* this.#anySet(goals(), place)
          : this.limited((yield* this.waysOfEach(goals())).flat(), place);
      case 'oneOf':
        return yield* this.#one(goals(), annotated, place);
      case 'not':
        return yield* this.ways(this.goal(schema, '/not', false));
      case 'if':
        return yield* this.#either(place, annotated);
      case 'type':
        return typed(value);
      case 'const':
        return [alternative({ values: [value] })];
      case 'enum':
        yield* textsInParts(value as readonly Json[]);
        return [alternative({ values: value as readonly Json[] })];
      case 'minimum':
      case 'maximum':
      case 'exclusiveMinimum':
      case 'exclusiveMaximum':
        return [alternative({ number: { [keyword]: value as number } })];
      case 'multipleOf':
        if (isCounted(value as number)) return [alternative({ number: { multipleOf: [value as number] } })];
        this.leave(place);
        return Number.isInteger(value)
          ? [
              alternative({ types: TYPES.filter((type) => type !== 'number') }),
              alternative({ types: ['number'], number: { integer: true } }),
            ]
          : undefined;
      case 'minLength':
      case 'maxLength':
        return [alternative({ string: { [keyword]: value as number } })];
      case 'pattern': {
        const pattern = this.pattern(place, value as string);
        return pattern === undefined ? undefined : [alternative({ string: { patterns: [pattern] } })];
      }
      case 'format':
        if (FORMATS.has(value as string)) return [alternative({ string: { formats: [value as string] } })];
        if (JUDGED_FORMATS.has(value as string)) this.leave(place);
        return undefined;
      case 'minItems':
      case 'maxItems':
        return [alternative({ list: { [keyword]: value as number } })];
      case 'uniqueItems':
        if (value !== true) return undefined;
        if (!(((siblings['maxItems'] as number | undefined) ?? 2) <= 1)) this.leave(place);
        return [alternative({ list: { unique: true } })];
      case 'contains': {
        const { minContains: least = 1, maxContains: most } = siblings as {
          readonly [name: string]: number | undefined;
        };
        if (least > 0 || most !== undefined || annotated) this.leave(place);
        return [
          alternative({
            list: { minItems: least },
            // Which of the items it speaks of nobody knows before.
            ...(annotated && { evaluated: { items: Infinity } }),
          }),
        ];
      }
      case 'prefixItems':
      case 'items':
        // Said once, by the first of them.
        return keyword === 'items' && siblings['prefixItems'] !== undefined
          ? undefined
          : [this.#items(schema, siblings)];
      case 'properties':
      case 'patternProperties':
      case 'additionalProperties':
        return firstOf(siblings) === keyword ? [this.#properties(schema, siblings)] : undefined;
      case 'propertyNames':
        return [alternative({ object: { names: [this.goal(schema, '/propertyNames')] } })];
      case 'required':
        return [alternative({ object: { required: value as readonly string[] } })];
      case 'minProperties':
      case 'maxProperties':
        return [alternative({ object: { [keyword]: value as number } })];
      case 'dependentRequired':
        return yield* this.together(
          Object.entries(value as Readonly<Record<string, readonly string[]>>).map(([name, needed]) => [
            without(name),
            withAll(name, ...needed),
          ]),
          place,
        );
      case 'dependentSchemas':
        return yield* this.#dependent(place, annotated);
      default:
        return undefined;
    }
  }

  limited(ways: readonly Alternative[], place: Pick<Place, 'schema' | 'keyword'>): readonly Alternative[] {
    if (ways.length <= SCHEMA_LIMITS.alternatives) return ways;
    this.leave(place);
    return [EVERYTHING];
  }

  /** Each set of subschemas that hold together. */
  *#anySet(goals: readonly Goal[], place: Place): Work<readonly Alternative[]> {
    if (goals.length > SCHEMA_LIMITS.unevaluatedBranches) {
      this.leave(place);
      return this.limited(
        (yield* this.waysOfEach(goals)).flat().map((way) => ({ ...way, evaluated: EVERYTHING.evaluated })),
        place,
      );
    }
    const ways = yield* this.waysOfEach(goals, true);
    const sets = Array.from({ length: 2 ** goals.length - 1 }, (_, at) =>
      ways.filter((_way, bit) => ((at + 1) & (1 << bit)) !== 0),
    );
    const all: Alternative[] = [];
    for (const set of sets) all.push(...(yield* this.together(set, place)));
    return this.limited(all, place);
  }

  *#one(goals: readonly Goal[], annotated: boolean, place: Place): Work<readonly Alternative[]> {
    const ways = yield* this.waysOfEach(goals, annotated);
    const all: Alternative[] = [];
    for (const [at, own] of ways.entries()) {
      // What has nothing in common with it need not be excluded.
      const others: Goal[] = [];
      for (const [other, { schema }] of goals.entries())
        if (other !== at && !(yield* disjoint(this, own, ways[other] ?? []))) others.push({ schema, holds: false });
      all.push(...(yield* this.together([own, ...(yield* this.waysOfEach(others))], place)));
    }
    return this.limited(all, place);
  }

  *#either(place: Place, annotated: boolean): Work<readonly Alternative[] | undefined> {
    const { schema, siblings } = place;
    const [then, otherwise] = [siblings['then'], siblings['else']];
    if (then === undefined && otherwise === undefined && !annotated) return undefined;
    const holds = yield* this.ways(this.goal(schema, '/if'), annotated);
    const met = then === undefined ? [ANY] : yield* this.ways(this.goal(schema, '/then'), annotated);
    const fails = yield* this.ways(this.goal(schema, '/if', false));
    const other = otherwise === undefined ? [ANY] : yield* this.ways(this.goal(schema, '/else'), annotated);
    return this.limited(
      [...(yield* this.together([holds, met], place)), ...(yield* this.together([fails, other], place))],
      place,
    );
  }

  *#dependent(place: Place, annotated: boolean): Work<readonly Alternative[]> {
    const sets: (readonly Alternative[])[] = [];
    for (const name of Object.keys(place.value as JsonObject)) {
      const own = yield* this.ways(this.goal(place.schema, `/dependentSchemas/${escaped(name)}`), annotated);
      sets.push([without(name), ...(yield* this.together([[withAll(name)], own], place))]);
    }
    return yield* this.together(sets, place);
  }

  #items(schema: Subschema, siblings: JsonObject): Alternative {
    const prefix = ((siblings['prefixItems'] ?? []) as readonly Json[]).map((_, at) =>
      this.goal(schema, `/prefixItems/${at}`),
    );
    const rest = siblings['items'] === undefined ? undefined : this.goal(schema, '/items');
    return alternative({
      list: { layers: [{ prefix, rest }] },
      evaluated: { items: rest === undefined ? prefix.length : Infinity },
    });
  }

  #properties(schema: Subschema, siblings: JsonObject): Alternative {
    const {
      properties = {},
      patternProperties = {},
      additionalProperties,
    } = siblings as { readonly [name: string]: JsonObject };
    const patterns = new Map<string, readonly Goal[]>();
    let hidden = false;
    for (const written of Object.keys(patternProperties)) {
      const pattern = this.pattern({ schema, keyword: 'patternProperties' }, written);
      // Then nothing is said of names that are not listed: some of them are its.
      if (pattern === undefined) {
        hidden = true;
        continue;
      }
      const goal = this.goal(schema, `/patternProperties/${escaped(written)}`);
      patterns.set(pattern, [...(patterns.get(pattern) ?? []), goal]);
    }
    const layer: PropertiesLayer = {
      properties: new Map(
        Object.keys(properties).map((name) => [name, this.goal(schema, `/properties/${escaped(name)}`)]),
      ),
      patterns,
      rest: additionalProperties === undefined || hidden ? undefined : this.goal(schema, '/additionalProperties'),
    };
    return alternative({
      object: { layers: [layer] },
      evaluated:
        additionalProperties === undefined && !hidden
          ? { names: new Set(layer.properties.keys()), patterns: new Set(layer.patterns.keys()) }
          : { names: 'all' },
    });
  }

  #unevaluated(
    schema: Subschema,
    keyword: string,
    { evaluated: { names, patterns, items } }: Alternative,
  ): Alternative {
    const rest = this.goal(schema, `/${keyword}`);
    if (keyword === 'unevaluatedItems') {
      const layers = items === Infinity ? [] : [{ prefix: Array.from({ length: items }, () => undefined), rest }];
      return alternative({ list: { layers }, evaluated: { items: Infinity } });
    }
    const layers =
      names === 'all'
        ? []
        : [
            {
              properties: new Map([...names].map((name) => [name, undefined])),
              patterns: new Map([...patterns].map((pattern) => [pattern, []])),
              rest,
            },
          ];
    return alternative({ object: { layers }, evaluated: { names: 'all' } });
  }
}

function translatedOrNone(pattern: string): string | undefined {
  try {
    return translated(pattern);
  } catch (error) {
    if (error instanceof PatternProblem) return undefined;
    throw error;
  }
}

/** An alternative of which nothing is said, and all is spoken. */
const EVERYTHING: Alternative = { ...ANY, evaluated: { names: 'all', patterns: new Set(), items: Infinity } };

/** Tells whether the grammar's engine can count in a divisor. */
function isCounted(divisor: number): boolean {
  if (divisor < 1e-9 || divisor >= 2 ** 32) return false;
  // As it comes to digits: 0.07 times ten is 0.7000000000000001, and so on.
  let digits = divisor;
  while (!Number.isInteger(digits)) digits *= 10;
  return digits <= SCHEMA_LIMITS.remainders;
}

/** The first of the keywords that speak of properties together. */
function firstOf(siblings: JsonObject): string | undefined {
  return Object.keys(siblings).find(
    (name) => name === 'properties' || name === 'patternProperties' || name === 'additionalProperties',
  );
}

function typed(value: Json): readonly Alternative[] {
  const names = (Array.isArray(value) ? value : [value]) as readonly (TypeName | 'integer')[];
  const types = names.filter((name): name is TypeName => name !== 'integer');
  return [
    ...(types.length > 0 ? [alternative({ types })] : []),
    // What is a number is one already.
    ...(names.includes('integer') && !types.includes('number')
      ? [alternative({ types: ['number'], number: { integer: true } })]
      : []),
  ];
}
