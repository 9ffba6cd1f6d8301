import type { Goal, ObjectRule, PropertiesLayer } from './Alternative.js';
import { SCHEMA_LIMITS } from './limits.js';
import type { NodeMaker, ObjectKind, OtherNames } from './Node.js';
import { lengths, literal } from './patterns.js';
import { FORMATS } from './formats.js';
import { refuse } from './refuse.js';
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
  const of = others(rule, names, nodes);
  const optional = properties.filter((property) => !property.required && property.node !== undefined);
  if (minProperties <= required.length && maxProperties === Infinity)
    return [{ kind: 'object', properties, more: { min: 0, of } }];
  if (optional.length > SCHEMA_LIMITS.countedOptional) {
    refuse(
      nodes,
      minProperties > required.length ? 'minProperties' : 'maxProperties',
      `found ${optional.length} optional properties beside it, expected at most ${SCHEMA_LIMITS.countedOptional}`,
    );
  }
  return Array.from({ length: 2 ** optional.length }, (_, set) => {
    const present = new Set(optional.filter((_property, bit) => (set & (1 << bit)) !== 0).map(({ name }) => name));
    const own = properties.map(({ name, node }) =>
      isNeeded(name) || present.has(name) ? { name, node, required: true } : { name, node: undefined, required: false },
    );
    const count = required.length + present.size;
    return { own, count, min: Math.max(0, minProperties - count), max: maxProperties - count };
  })
    .filter(({ max, min }) => max >= 0 && min <= max)
    .map(({ own, min, max }) => ({
      kind: 'object',
      properties: own,
      more: { min, ...(max !== Infinity && { max }), of: max === 0 ? [] : of },
    }));
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

/** @param known names with nodes of their own */
function others({ names, layers }: ObjectRule, known: readonly string[], nodes: NodeMaker): readonly OtherNames[] {
  const patterns = [...new Set(layers.flatMap((layer) => [...layer.patterns.keys()]))].filter(
    (pattern) => besides(pattern, known, nodes.values) !== undefined,
  );
  if (patterns.length > 1 && !areApart(patterns))
    refuse(
      nodes,
      'patternProperties',
      'found patterns that one name may match together, expected patterns that begin with different letters',
    );
  const rest = nodes.of(layers.map((layer) => layer.rest));
  const named = names.map((goal) => namePattern(goal, known, nodes));
  if (named.length === 0) {
    return [
      ...patterns.map((pattern) => ({
        pattern: besides(pattern, known, nodes.values) ?? pattern,
        keyword: 'patternProperties' as const,
        node: nodes.of(
          layers.flatMap((layer): readonly (Goal | undefined)[] => layer.patterns.get(pattern) ?? [layer.rest]),
        ),
      })),
      { keyword: 'additionalProperties', node: rest },
    ];
  }
  const [only] = named;
  if (named.length > 1 || patterns.length > 0)
    refuse(nodes, 'propertyNames', 'found it beside patternProperties, or twice, expected it alone');
  const pattern = only === undefined ? undefined : besides(only, known, nodes.values);
  return pattern === undefined ? [] : [{ pattern, keyword: 'propertyNames', node: rest }];
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
      if (all.length > 1)
        refuse(
          nodes,
          'propertyNames',
          'found several things said of names at once, expected one of pattern, format, enum, or lengths',
        );
      return all.length === 0 ? [lengths(0, undefined)] : all;
    });
  return patterns.length === 0
    ? undefined
    : patterns.length === 1
      ? patterns[0]
      : `^(?:${patterns.map((pattern) => pattern.slice(1, -1)).join('|')})$`;
}
