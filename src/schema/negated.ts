import type { Work } from '../collections/drained.js';
import {
  alternative,
  type Alternative,
  ANY,
  type Goal,
  type Place,
  type Ways,
  withAll,
  without,
} from './Alternative.js';
import { FORMATS, JUDGED_FORMATS } from './formats.js';
import { escaped, TYPES, type Json, type JsonObject, type TypeName } from './keywords.js';
import { SCHEMA_LIMITS } from './limits.js';
import { noneOf } from './patterns.js';
import type { Subschema } from './SchemaDocument.js';

/**
 * The ways in which a value does not satisfy a schema: one of its keywords does not hold. Where no mask can say the
 * contrary of a keyword these are all values.
 */
export function* negated(expander: Ways, schema: Subschema, siblings: JsonObject): Work<readonly Alternative[]> {
  const ways: Alternative[] = [];
  for (const [keyword, value] of Object.entries(siblings))
    if (value !== undefined) ways.push(...(yield* keywordFails(expander, { schema, keyword, value, siblings })));
  // What a schema speaks of that does not hold counts as not spoken of.
  return expander.limited(ways, { schema, keyword: 'not' }).map((way) => ({ ...way, evaluated: ANY.evaluated }));
}

function* keywordFails(expander: Ways, place: Place): Work<readonly Alternative[]> {
  const { schema, keyword, value, siblings } = place;
  const goals = (holds: boolean): Goal[] =>
    (value as readonly Json[]).map((_, at) => expander.goal(schema, `/${keyword}/${at}`, holds));
  const number = value as number;
  switch (keyword) {
    case '$ref':
    case '$dynamicRef':
      return yield* expander.ways({ schema: expander.target(place), holds: false });
    case 'allOf':
      return (yield* expander.waysOfEach(goals(false))).flat();
    case 'anyOf':
      return yield* expander.together(yield* expander.waysOfEach(goals(false)), place);
    case 'oneOf': {
      const ways = [...(yield* expander.together(yield* expander.waysOfEach(goals(false)), place))];
      const own = yield* expander.waysOfEach(goals(true));
      for (const [at, one] of own.entries())
        for (const other of own.slice(at + 1)) ways.push(...(yield* expander.together([one, other], place)));
      return ways;
    }
    case 'not':
      return yield* expander.ways(expander.goal(schema, '/not'));
    case 'if': {
      const [then, otherwise] = [siblings['then'], siblings['else']];
      const ways: Alternative[] = [];
      for (const [branch, keyword, holds] of [
        [then, '/then', true],
        [otherwise, '/else', false],
      ] as const) {
        if (branch === undefined) continue;
        const fails = [expander.goal(schema, '/if', holds), expander.goal(schema, keyword, false)];
        ways.push(...(yield* expander.together(yield* expander.waysOfEach(fails), place)));
      }
      return ways;
    }
    case 'type':
      return otherTypes(expander, place);
    case 'const':
      return besides(expander, place, [value]);
    case 'enum':
      return besides(expander, place, value as readonly Json[]);
    case 'minimum':
      return [alternative({ types: ['number'], number: { exclusiveMaximum: number } })];
    case 'maximum':
      return [alternative({ types: ['number'], number: { exclusiveMinimum: number } })];
    case 'exclusiveMinimum':
      return [alternative({ types: ['number'], number: { maximum: number } })];
    case 'exclusiveMaximum':
      return [alternative({ types: ['number'], number: { minimum: number } })];
    case 'minLength':
      return number === 0 ? [] : [alternative({ types: ['string'], string: { maxLength: number - 1 } })];
    case 'maxLength':
      return [alternative({ types: ['string'], string: { minLength: number + 1 } })];
    case 'minItems':
      return number === 0 ? [] : [alternative({ types: ['array'], list: { maxItems: number - 1 } })];
    case 'maxItems':
      return [alternative({ types: ['array'], list: { minItems: number + 1 } })];
    case 'minProperties':
      return number === 0 ? [] : [alternative({ types: ['object'], object: { maxProperties: number - 1 } })];
    case 'maxProperties':
      return [alternative({ types: ['object'], object: { minProperties: number + 1 } })];
    case 'required':
      return (value as readonly string[]).map((name) =>
        alternative({ types: ['object'], object: { absent: new Set([name]) } }),
      );
    case 'properties':
      return Object.keys(value as JsonObject).map((name) =>
        withProperty(name, expander.goal(schema, `/properties/${escaped(name)}`, false)),
      );
    case 'prefixItems':
      return goals(false).map((goal, at) =>
        alternative({
          types: ['array'],
          list: {
            minItems: at + 1,
            layers: [{ prefix: [...Array.from({ length: at }, () => undefined), goal], rest: undefined }],
          },
        }),
      );
    case 'contains':
      if (siblings['minContains'] !== undefined || siblings['maxContains'] !== undefined)
        return left(expander, place, 'array');
      return [
        alternative({
          types: ['array'],
          list: { layers: [{ prefix: [], rest: expander.goal(schema, '/contains', false) }] },
        }),
      ];
    case 'dependentRequired': {
      const ways: Alternative[] = [];
      for (const [name, needed] of Object.entries(value as Readonly<Record<string, readonly string[]>>))
        ways.push(...(yield* expander.together([[withAll(name)], needed.map((other) => without(other))], place)));
      return ways;
    }
    case 'dependentSchemas': {
      const ways: Alternative[] = [];
      for (const name of Object.keys(value as JsonObject)) {
        const fails = yield* expander.ways(expander.goal(schema, `/dependentSchemas/${escaped(name)}`, false));
        ways.push(...(yield* expander.together([[withAll(name)], fails], place)));
      }
      return ways;
    }
    case 'additionalProperties':
      // Something of any name is more than nothing.
      if (value === false && siblings['properties'] === undefined && siblings['patternProperties'] === undefined)
        return [alternative({ types: ['object'], object: { minProperties: 1 } })];
      return value === true ? [] : left(expander, place, 'object');
    case 'items':
      if (value === false && siblings['prefixItems'] === undefined)
        return [alternative({ types: ['array'], list: { minItems: 1 } })];
      return value === true ? [] : left(expander, place, 'array');
    case 'uniqueItems':
      return value === false ? [] : [...left(expander, place, 'array', { list: { minItems: 2 } })];
    case 'unevaluatedItems':
      return left(expander, place, 'array');
    case 'multipleOf':
      return left(expander, place, 'number');
    case 'pattern':
      return left(expander, place, 'string');
    case 'format':
      return FORMATS.has(value as string) || JUDGED_FORMATS.has(value as string) ? left(expander, place, 'string') : [];
    case 'patternProperties':
    case 'propertyNames':
    case 'unevaluatedProperties':
      return left(expander, place, 'object');
    default:
      return [];
  }
}

/** Values that the keyword speaks of, some of which do not satisfy it. */
function left(
  expander: Ways,
  place: Place,
  type: TypeName,
  rules: Omit<Parameters<typeof alternative>[0], 'types' | 'values'> = {},
): readonly Alternative[] {
  expander.leave(place);
  return [alternative({ types: [type], ...rules })];
}

/** Numbers that are no integers have no form of their own. */
function otherTypes(expander: Ways, place: Place): readonly Alternative[] {
  const names = (Array.isArray(place.value) ? place.value : [place.value]) as readonly string[];
  if (names.includes('integer') && !names.includes('number')) expander.leave(place);
  const others = TYPES.filter((type) => !names.includes(type));
  return others.length === 0 ? [] : [alternative({ types: others })];
}

/** Every value but these. */
function besides(expander: Ways, place: Place, values: readonly Json[]): readonly Alternative[] {
  const types = new Set<TypeName>(TYPES);
  const ways: Alternative[] = [];
  const of = <Type extends string | number | boolean>(type: 'string' | 'number' | 'boolean'): Type[] =>
    values.filter((value): value is Type => typeof value === type);
  if (values.includes(null)) types.delete('null');
  const [booleans, strings, numbers] = [of<boolean>('boolean'), of<string>('string'), of<number>('number')];
  if (booleans.length > 0) {
    types.delete('boolean');
    ways.push(
      ...[true, false]
        .filter((value) => !booleans.includes(value))
        .map((value) => alternative({ types: ['boolean'], values: [value] })),
    );
  }
  if (strings.length > 0) {
    const pattern = noneOf(strings, SCHEMA_LIMITS.writtenPattern);
    if (pattern === undefined) expander.leave(place);
    else {
      types.delete('string');
      ways.push(alternative({ types: ['string'], string: { patterns: [pattern] } }));
    }
  }
  const distinct = [...new Set(numbers)];
  if (distinct.length >= SCHEMA_LIMITS.alternatives) expander.leave(place);
  else if (distinct.length > 0) {
    types.delete('number');
    const edges = [-Infinity, ...distinct.sort((a, b) => a - b), Infinity];
    ways.push(
      ...edges.slice(1).map((above, at) =>
        alternative({
          types: ['number'],
          number: { ...within('exclusiveMinimum', edges[at]), ...within('exclusiveMaximum', above) },
        }),
      ),
    );
  }
  for (const value of values) {
    if (typeof value !== 'object' || value === null) continue;
    const type = Array.isArray(value) ? 'array' : 'object';
    if (Object.keys(value).length > 0) {
      expander.leave(place);
      continue;
    }
    if (!types.delete(type)) continue;
    ways.push(
      alternative(
        type === 'array'
          ? { types: ['array'], list: { minItems: 1 } }
          : { types: ['object'], object: { minProperties: 1 } },
      ),
    );
  }
  return [...(types.size > 0 ? [alternative({ types: [...types] })] : []), ...ways];
}

function within(
  name: 'exclusiveMinimum' | 'exclusiveMaximum',
  edge: number | undefined,
): Partial<Alternative['number']> {
  return edge === undefined || !Number.isFinite(edge) ? {} : { [name]: edge };
}

function withProperty(name: string, goal: Goal): Alternative {
  return alternative({
    types: ['object'],
    object: {
      required: [name],
      layers: [{ properties: new Map([[name, goal]]), patterns: new Map(), rest: undefined }],
    },
  });
}
