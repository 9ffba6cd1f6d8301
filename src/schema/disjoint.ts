import type { Work } from '../collections/drained.js';
import { type Alternative, common, type Goal, type NumberRule, type Ways } from './Alternative.js';

/** Steps that a look at two ways takes, roughly. */
const STEPS = 10;

/** Properties inside of properties that are looked into. */
const DEPTH = 2;

/** Tells whether it is plain that no value is valid both in one of these ways and in one of those. */
export function* disjoint(
  expander: Ways,
  ways: readonly Alternative[],
  others: readonly Alternative[],
  depth = DEPTH,
): Work<boolean> {
  for (const a of ways) for (const b of others) if (!(yield* apart(expander, a, b, depth))) return false;
  return true;
}

function* apart(expander: Ways, a: Alternative, b: Alternative, depth: number): Work<boolean> {
  const { steps } = expander.document;
  steps.take(STEPS + (a.values?.length ?? 0) + (b.values?.length ?? 0));
  if (steps.due) yield;
  const types = [...a.types].filter((type) => b.types.has(type));
  if (a.values && b.values) return common(a.values, b.values).length === 0;
  const scalars = types.every((type) => {
    if (type === 'number') return numbersApart(a.number, b.number);
    if (type === 'string')
      return (
        a.string.minLength > (b.string.maxLength ?? Infinity) || b.string.minLength > (a.string.maxLength ?? Infinity)
      );
    if (type === 'array')
      return a.list.minItems > (b.list.maxItems ?? Infinity) || b.list.minItems > (a.list.maxItems ?? Infinity);
    return type === 'object';
  });
  return scalars && (!types.includes('object') || (yield* objectsApart(expander, a, b, depth)));
}

function numbersApart(a: NumberRule, b: NumberRule): boolean {
  return below(a, b) || below(b, a);
}

function below(
  { maximum = Infinity, exclusiveMaximum = Infinity }: NumberRule,
  { minimum = -Infinity, exclusiveMinimum = -Infinity }: NumberRule,
): boolean {
  return (
    maximum < minimum ||
    maximum <= exclusiveMinimum ||
    exclusiveMaximum <= minimum ||
    exclusiveMaximum <= exclusiveMinimum
  );
}

/** One has a property that the other cannot have, or not with such a value. */
function* objectsApart(expander: Ways, a: Alternative, b: Alternative, depth: number): Work<boolean> {
  if (depth === 0) return false;
  const { steps } = expander.document;
  for (const name of new Set([...a.object.required, ...b.object.required])) {
    if (a.object.absent.has(name) || b.object.absent.has(name)) return true;
    steps.take(STEPS * (a.object.layers.length + b.object.layers.length));
    const [mine, theirs] = [goalsOf(a, name), goalsOf(b, name)];
    for (const one of mine)
      for (const other of theirs) {
        const [ways, others] = [yield* expander.knownWays(one), yield* expander.knownWays(other)];
        if (ways && others && (yield* disjoint(expander, ways, others, depth - 1))) return true;
      }
  }
  return false;
}

function goalsOf({ object: { layers } }: Alternative, name: string): readonly Goal[] {
  return layers.flatMap(({ properties, patterns, rest }) =>
    properties.has(name) || patterns.size === 0 ? ((properties.has(name) ? properties.get(name) : rest) ?? []) : [],
  );
}
