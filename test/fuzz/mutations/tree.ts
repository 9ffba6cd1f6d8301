import type { Json } from '../images/ModelImage.js';
import type { Random } from '../Random.js';
import { anyJson, number, text, word } from './values.js';

type Path = readonly (string | number)[];

/** A JSON document with one place changed. */
export function mutatedTree(random: Random, tree: Json): Json {
  const path = anyPath(random, tree);
  const parent = path.slice(0, -1);
  const last = path.at(-1);
  if (last === undefined) return random.chance(0.05) ? anyJson(random) : tree;
  return random.weighted<() => Json>([
    [8, () => changedAt(tree, path, (value) => alike(random, value))],
    [3, () => changedAt(tree, path, () => anyJson(random))],
    [2, () => changedAt(tree, path, () => undefined)],
    [2, () => changedAt(tree, path, () => at(tree, anyPath(random, tree)))],
    [
      2,
      () =>
        changedAt(
          tree,
          [...parent, typeof last === 'number' ? last + 1 : random.chance(0.5) ? word(random) : `${last}_`],
          () => at(tree, path),
        ),
    ],
    [1, () => changedAt(tree, parent, (value) => doubled(random, value))],
    [1, () => changedAt(tree, parent, (value) => renamed(value, last, random.chance(0.5) ? word(random) : `${last}s`))],
  ])();
}

/** A way down to some value, most often not far: a document's own members count, not each of a thousand tokens. */
function anyPath(random: Random, tree: Json): Path {
  const path: (string | number)[] = [];
  for (let value = tree; typeof value === 'object' && value !== null; value = at(value, path.slice(-1)) ?? null) {
    const keys: readonly (string | number)[] = Array.isArray(value)
      ? [...value.keys(), 0]
      : [...Object.keys(value), ''];
    const key = random.pick(keys);
    if (at(value, [key]) === undefined) break;
    path.push(key);
    if (random.chance(0.25)) break;
  }
  return path;
}

export function at(tree: Json, path: Path): Json | undefined {
  let value: Json | undefined = tree;
  for (const key of path) {
    if (typeof value !== 'object' || value === null) return undefined;
    value = Object.hasOwn(value, key) ? (value as Readonly<Record<string, Json>>)[key] : undefined;
  }
  return value;
}

/** The tree with the value at a path changed; undefined removes it. Parts that do not change are shared. */
export function changedAt(tree: Json, path: Path, change: (value: Json | undefined) => Json | undefined): Json {
  const [key, ...rest] = path;
  if (key === undefined) return change(tree) ?? null;
  if (typeof tree !== 'object' || tree === null) return tree;
  const child = at(tree, [key]);
  const value = rest.length === 0 ? change(child) : child === undefined ? undefined : changedAt(child, rest, change);
  if (Array.isArray(tree)) {
    const items = tree as readonly Json[];
    const index = Number(key);
    if (!Number.isInteger(index) || index > items.length) return tree;
    return [
      ...items.slice(0, index),
      ...(value === undefined ? [] : [value]),
      ...items.slice(index + (child === undefined ? 0 : 1)),
    ];
  }
  const entries = Object.entries(tree as Readonly<Record<string, Json>>).filter(([name]) => name !== key);
  return Object.fromEntries(value === undefined ? entries : [...entries, [key, value]]);
}

/** Another value of the same type. */
function alike(random: Random, value: Json | undefined): Json {
  switch (typeof value) {
    case 'number':
      return random.chance(0.7) ? number(random) : value + random.pick([-1, 1, 0.5, value]);
    case 'boolean':
      return !value;
    case 'string':
      return edited(random, value);
    default:
      return anyJson(random);
  }
}

/** A text with something put in, taken out, or said twice. */
export function edited(random: Random, value: string): string {
  const from = random.below(value.length + 1);
  const to = Math.min(value.length, from + random.below(random.chance(0.8) ? 6 : value.length + 1));
  return random.weighted([
    [3, () => value.slice(0, from) + text(random) + value.slice(from)],
    [2, () => value.slice(0, from) + value.slice(to)],
    [2, () => value.slice(0, to) + value.slice(from)],
    [1, () => value.slice(0, from) + value.slice(from, to).repeat(random.pick([10, 100, 1000])) + value.slice(to)],
    [2, () => text(random)],
    [1, () => value.toUpperCase()],
  ])();
}

function doubled(random: Random, value: Json | undefined): Json | undefined {
  if (!Array.isArray(value)) return value;
  const items = value as readonly Json[];
  return random.weighted([
    [2, () => [...items, ...items]],
    [1, () => [...items].reverse()],
    [1, () => items.slice(0, random.below(items.length + 1))],
    [1, () => Array<Json>(random.pick([100, 1000])).fill(items[random.below(items.length)] ?? null)],
  ])();
}

function renamed(value: Json | undefined, key: string | number, name: string): Json | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([each, child]) => [each === key ? name : each, child]));
}
