import type { Work } from '../collections/drained.js';
import type { Goal, ObjectRule, PropertiesLayer } from './Alternative.js';
import { SCHEMA_LIMITS } from './limits.js';
import type { Node, NodeMaker, ObjectKind, OtherNames } from './Node.js';
import { lengths, literal } from './patterns.js';
import { formatPattern } from './formats.js';
import { textsOf } from './texts.js';
import type { Values } from './Values.js';

/**
 * Every property's node, of all that is said of it; where properties are counted each set of optional ones is a kind of
 * its own.
 */
export function* objectsOf(rule: ObjectRule, nodes: NodeMaker): Work<readonly ObjectKind[]> {
  const { steps } = nodes.expander.document;
  const { required, absent, layers, minProperties, maxProperties = Infinity } = rule;
  if (required.some((name) => absent.has(name)) || required.length > maxProperties) return [];
  const names = [...new Set([...layers.flatMap(({ properties }) => [...properties.keys()]), ...required, ...absent])];
  const needed = new Set(required);
  const properties: ObjectKind['properties'][number][] = [];
  for (const name of names) {
    steps.take(layers.length);
    if (steps.due) yield;
    let allowed = !absent.has(name);
    for (const goal of rule.names) allowed &&= yield* nodes.values.holds(name, goal);
    const goals: (Goal | undefined)[] = [];
    if (allowed) for (const layer of layers) goals.push(...(yield* goalsOf(layer, name, nodes.values)));
    properties.push({ name, required: needed.has(name), node: allowed ? nodes.of(goals) : undefined });
  }
  const of = yield* others(rule, properties, nodes);
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
function* goalsOf(
  { properties, patterns, rest }: PropertiesLayer,
  name: string,
  values: Values,
): Work<readonly (Goal | undefined)[]> {
  const goals = properties.has(name) ? [properties.get(name)] : [];
  let matching = false;
  for (const [pattern, own] of patterns) {
    if (!(yield* values.matches(pattern, name))) continue;
    matching = true;
    goals.push(...own);
  }
  return properties.has(name) || matching ? goals : [rest];
}

/** @param properties those with nodes of their own */
function* others(
  { names, layers }: ObjectRule,
  properties: ObjectKind['properties'],
  nodes: NodeMaker,
): Work<readonly OtherNames[]> {
  const known = properties.map(({ name }) => name);
  const rest = nodes.of(layers.map((layer) => layer.rest));
  const patterns: { readonly pattern: string; readonly node: Node }[] = [];
  for (const pattern of new Set(layers.flatMap((layer) => [...layer.patterns.keys()]))) {
    const written = yield* besides(pattern, known, nodes);
    const goals = layers.flatMap((layer): readonly (Goal | undefined)[] => layer.patterns.get(pattern) ?? [layer.rest]);
    if (written !== undefined) patterns.push({ pattern: written, node: nodes.of(goals) });
  }
  const named: (string | undefined)[] = [];
  for (const goal of names) named.push(yield* namePattern(goal, known, nodes));
  if (named.length > 0 && (named.length > 1 || patterns.length > 0)) nodes.leave('propertyNames');
  if (named.length === 0 || patterns.length > 0) return [...apart(patterns, rest, nodes), { node: rest }];
  const pattern = named[0] === undefined ? undefined : yield* besides(named[0], known, nodes);
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
function* besides(
  pattern: string,
  known: readonly string[],
  { values, expander }: NodeMaker,
): Work<string | undefined> {
  const { steps } = expander.document;
  const taken = new Set<string>();
  for (const name of known) if (yield* values.matches(pattern, name)) taken.add(name);
  const most = taken.size === 0 ? 0 : Math.max(SCHEMA_LIMITS.alternatives, taken.size);
  const texts = yield* textsOf(pattern, most, steps);
  if (texts === undefined) return pattern;
  const left = [...texts].filter((text) => !taken.has(text));
  if (left.length === 0) return undefined;
  const written = oneOf(left);
  return written.length <= SCHEMA_LIMITS.writtenPattern ? written : pattern;
}

function oneOf(texts: readonly string[]): string {
  return `^(?:${texts.map(literal).join('|')})$`;
}

/** Tells whether no name matches two patterns: each begins with a letter of its own. */
function areApart(patterns: readonly string[]): boolean {
  const starts = patterns.map(
    (pattern) => /^\^\(\?:(?:(?:\(\?:)*)([0-9A-Za-z_]|\\u\{[0-9a-f]+\})(?![*?{])[^|]*$/.exec(pattern)?.[1],
  );
  return starts.every((start) => start !== undefined) && new Set(starts).size === starts.length;
}

/** Gives one pattern that unknown names satisfy; undefined where no name does. */
function* namePattern(goal: Goal, known: readonly string[], nodes: NodeMaker): Work<string | undefined> {
  const { steps } = nodes.expander.document;
  const taken = new Set(known);
  const patterns: string[] = [];
  for (const { types, values, string } of yield* nodes.expander.ways(goal)) {
    if (!types.has('string')) continue;
    if (values) {
      const texts: string[] = [];
      for (const value of values) {
        if (typeof value !== 'string' || taken.has(value) || !(yield* nodes.values.holds(value, goal))) continue;
        texts.push(literal(value));
        steps.take(value.length);
        if (steps.due) yield;
      }
      if (texts.length > 0) patterns.push(`^(?:${texts.join('|')})$`);
      continue;
    }
    const { minLength, maxLength, patterns: own, formats } = string;
    const all = [
      ...own,
      ...formats.flatMap((name) => formatPattern(name) ?? []),
      ...(minLength > 0 || maxLength !== undefined ? [lengths(minLength, maxLength)] : []),
    ];
    if (all.length > 1) nodes.leave('propertyNames');
    patterns.push(all[0] ?? lengths(0, undefined));
  }
  return patterns.length === 0
    ? undefined
    : patterns.length === 1
      ? patterns[0]
      : `^(?:${patterns.map((pattern) => pattern.slice(1, -1)).join('|')})$`;
}
