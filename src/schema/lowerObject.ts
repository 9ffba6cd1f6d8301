import type { Goal, ObjectRule, PropertiesLayer } from './Alternative.js';
import { SCHEMA_LIMITS } from './limits.js';
import type { Node, NodeMaker, ObjectKind, OtherNames } from './Node.js';
import { lengths, literal } from './patterns.js';
import { FORMATS } from './formats.js';
import { textsOf } from './texts.js';
import type { Values } from './Values.js';

/**
 * Every property's node, of all that is said of it; where properties are counted each set of optional ones is a kind of
 * its own.
 */
export function objectsOf(rule: ObjectRule, nodes: NodeMaker): readonly ObjectKind[] {
  const { required, absent, layers, minProperties, maxProperties = Infinity } = rule;
  if (required.some((name) => absent.has(name)) || required.length > maxProperties) return [];
  const names = [...new Set([...layers.flatMap(({ properties }) => [...properties.keys()]), ...required, ...absent])];
  const isNeeded = (name: string): boolean => required.includes(name);
  const properties = names.map((name) => {
    const allowed = !absent.has(name) && rule.names.every((goal) => nodes.values.satisfies(name, goal));
    return {
      name,
      required: isNeeded(name),
      node: allowed ? nodes.of(layers.flatMap((layer) => goalsOf(layer, name, nodes.values))) : undefined,
    };
  });
  const of = others(rule, properties, nodes);
  const optional = properties.filter((property) => !property.required && property.node !== undefined);
  const [least, most] = [Math.max(0, minProperties - required.length), maxProperties - required.length];
  const counted = countings(optional.length, least, most);
  if (counted === undefined) nodes.leave(least > 0 ? 'minProperties' : 'maxProperties');
  return (counted ?? [{ optional: [], more: { min: 0, max: Infinity } }]).map(({ optional: present, more }) => {
    const states = new Map(optional.map(({ name }, at) => [name, present[at]] as const));
    return {
      kind: 'object',
      properties: properties.map(({ name, node, required: isNeeded }) => {
        const state = states.get(name);
        return { name, node: state === false ? undefined : node, required: isNeeded || state === true };
      }),
      more: { min: more.min, ...(more.max !== Infinity && { max: more.max }), of: more.max === 0 ? [] : of },
    };
  });
}

/** Which optional properties are there, as far as that is known, and how many of other names. */
interface Counting {
  readonly optional: readonly (boolean | undefined)[];
  readonly more: { readonly min: number; readonly max: number };
}

/**
 * The ways in which so many of some properties are there: one by one, until what follows is free or must not be.
 * @returns undefined where there are too many
 */
function countings(optional: number, least: number, most: number): readonly Counting[] | undefined {
  const found: Counting[] = [];
  const go = (present: readonly boolean[], count: number): void => {
    if (found.length > SCHEMA_LIMITS.countings) return;
    if (count >= least && most === Infinity) found.push({ optional: present, more: { min: 0, max: Infinity } });
    else if (count === most)
      found.push({
        optional: Array.from({ length: optional }, (_, at) => present[at] ?? false),
        more: { min: 0, max: 0 },
      });
    else if (present.length === optional)
      found.push({ optional: present, more: { min: Math.max(0, least - count), max: most - count } });
    else {
      go([...present, true], count + 1);
      go([...present, false], count);
    }
  };
  if (least <= most) go([], 0);
  return found.length > SCHEMA_LIMITS.countings ? undefined : found;
}

/** All that is said of a property with this name. */
function goalsOf(
  { properties, patterns, rest }: PropertiesLayer,
  name: string,
  values: Values,
): readonly (Goal | undefined)[] {
  const matching = [...patterns].filter(([pattern]) => values.matches(pattern, name));
  if (!properties.has(name) && matching.length === 0) return [rest];
  return [properties.get(name), ...matching.flatMap(([, goals]) => goals)];
}

/** @param properties those with nodes of their own */
function others(
  { names, layers }: ObjectRule,
  properties: ObjectKind['properties'],
  nodes: NodeMaker,
): readonly OtherNames[] {
  const known = properties.map(({ name }) => name);
  const rest = nodes.of(layers.map((layer) => layer.rest));
  const patterns = [...new Set(layers.flatMap((layer) => [...layer.patterns.keys()]))].flatMap((pattern) => {
    const written = besides(pattern, known, nodes.values);
    const goals = layers.flatMap((layer): readonly (Goal | undefined)[] => layer.patterns.get(pattern) ?? [layer.rest]);
    return written === undefined ? [] : [{ pattern: written, node: nodes.of(goals) }];
  });
  const named = names.map((goal) => namePattern(goal, known, nodes));
  if (named.length > 0 && (named.length > 1 || patterns.length > 0)) nodes.leave('propertyNames');
  if (named.length === 0 || patterns.length > 0) return [...apart(patterns, rest, nodes), { node: rest }];
  const pattern = named[0] === undefined ? undefined : besides(named[0], known, nodes.values);
  // `otherNames` looks whether what the pattern says of others holds of listed ones that match it, too.
  return pattern === undefined ? [] : [{ pattern, node: rest, keyword: 'propertyNames' }];
}

/** Patterns such that no name matches two: of others values of either are let through. */
function apart(
  patterns: readonly (OtherNames & { readonly pattern: string })[],
  rest: Node,
  nodes: NodeMaker,
): readonly OtherNames[] {
  if (patterns.length < 2 || areApart(patterns.map(({ pattern }) => pattern))) return patterns;
  nodes.leave('patternProperties');
  const pattern = `^(?:${patterns.map(({ pattern: one }) => one.slice(1, -1)).join('|')})$`;
  const node = nodes.either(patterns.map((one) => one.node));
  return pattern.length <= SCHEMA_LIMITS.writtenPattern ? [{ pattern, node }] : [{ node: nodes.either([node, rest]) }];
}

/**
 * A pattern without names that are known: the grammar's engine lets an object go on with a name that matches it, also
 * where none is left. Those of few names are written as these; of others enough are left.
 * @returns undefined where it has no other
 */
function besides(pattern: string, known: readonly string[], values: Values): string | undefined {
  const taken = known.filter((name) => values.matches(pattern, name));
  const texts = textsOf(pattern, taken.length === 0 ? 0 : Math.max(SCHEMA_LIMITS.alternatives, taken.length));
  if (texts === undefined) return pattern;
  const left = [...texts].filter((text) => !taken.includes(text));
  if (left.length === 0) return undefined;
  const written = oneOf(left);
  return written.length <= SCHEMA_LIMITS.writtenPattern ? written : pattern;
}

function oneOf(texts: readonly string[]): string {
  return `^(?:${texts.map(literal).join('|')})$`;
}

/** Whether no name matches two: each begins with a letter of its own. */
function areApart(patterns: readonly string[]): boolean {
  const starts = patterns.map(
    (pattern) => /^\^\(\?:(?:(?:\(\?:)*)([0-9A-Za-z_]|\\u\{[0-9a-f]+\})(?![*?{])[^|]*$/.exec(pattern)?.[1],
  );
  return starts.every((start) => start !== undefined) && new Set(starts).size === starts.length;
}

/** What names satisfy that are not known, as one pattern; undefined where no name does. */
function namePattern(goal: Goal, known: readonly string[], nodes: NodeMaker): string | undefined {
  const patterns = nodes.expander
    .ways(goal)
    .filter(({ types }) => types.has('string'))
    .flatMap(({ values, string: { minLength, maxLength, patterns: own, formats } }) => {
      if (values) {
        const texts = values.filter(
          (value): value is string =>
            typeof value === 'string' && !known.includes(value) && nodes.values.satisfies(value, goal),
        );
        return texts.length === 0 ? [] : [oneOf(texts)];
      }
      const all = [
        ...own,
        ...formats.flatMap((name) => FORMATS.get(name) ?? []),
        ...(minLength > 0 || maxLength !== undefined ? [lengths(minLength, maxLength)] : []),
      ];
      if (all.length > 1) nodes.leave('propertyNames');
      return [all[0] ?? lengths(0, undefined)];
    });
  return patterns.length === 0
    ? undefined
    : patterns.length === 1
      ? patterns[0]
      : `^(?:${patterns.map((pattern) => pattern.slice(1, -1)).join('|')})$`;
}
