import type { Work } from '../collections/drained.js';
import type { Steps } from '../regex/Steps.js';
import { type Alternative, type Goal, type ListRule, typeOf, type Ways } from './Alternative.js';
import { type Json, type JsonObject, type TypeName, TYPES } from './keywords.js';
import { SCHEMA_LIMITS } from './limits.js';
import { objectsOf } from './lowerObject.js';
import { numberSchema, stringSchema } from './lowerScalar.js';
import type { AnswerBounds, Kind, ListKind, MaskBounds, Node, NodeMaker, ObjectKind, OtherNames } from './Node.js';
import { otherNames } from './otherNames.js';
import { noneOf, quotable } from './patterns.js';
import { type Subschema, UnsupportedSchema } from './SchemaDocument.js';
import type { Values } from './Values.js';

/** Makes nodes of goals that a value has all at once, each set of goals once. */
export class Nodes implements NodeMaker {
  readonly all: Node[] = [];
  readonly #byGoals = new Map<string, Node>();
  readonly #waiting: (() => Work<void>)[] = [];
  readonly #left = new Set<string>();

  constructor(
    readonly expander: Ways,
    readonly values: Values,
    private readonly place: Subschema,
    readonly bounds: MaskBounds,
  ) {}

  /** The node of all these goals together; its kinds are there after `settle`. */
  of(goals: readonly (Goal | undefined)[]): Node {
    const distinct = new Map(
      goals.flatMap((goal) => (goal === undefined ? [] : [[`${goal.schema.id} ${goal.holds}`, goal] as const])),
    );
    this.expander.document.steps.take(1 + goals.length);
    // In the order in which they are said, which is that of keys.
    const key = [...distinct.keys()].join();
    return this.#node(key, [...distinct.values()], (node) => this.#kinds(node.goals));
  }

  either(some: readonly Node[]): Node {
    const distinct = [...new Set(some)];
    const [only] = distinct;
    if (distinct.length === 1 && only !== undefined) return only;
    const key = distinct.map(({ number }) => `either ${number}`).join();
    // Theirs are known by then.
    return this.#node(key, [], function* () {
      yield;
      return distinct.flatMap(({ kinds }) => kinds);
    });
  }

  leave(keyword: string): void {
    if (this.#left.has(keyword)) return;
    this.#left.add(keyword);
    const place = this.expander.document.all.find(
      ({ schema }) => typeof schema === 'object' && schema[keyword] !== undefined,
    );
    if (place !== undefined) this.expander.leave({ schema: place, keyword });
  }

  #node(key: string, goals: readonly Goal[], kinds: (node: Node) => Work<readonly Kind[]>): Node {
    const known = this.#byGoals.get(key);
    if (known !== undefined) return known;
    if (this.all.length >= SCHEMA_LIMITS.nodes)
      throw new UnsupportedSchema(
        this.place.pointer,
        undefined,
        `found more than ${SCHEMA_LIMITS.nodes} kinds of values, expected at most so many`,
      );
    const node: Node = { number: this.all.length, goals, kinds: [], possible: false };
    this.all.push(node);
    this.#byGoals.set(key, node);
    this.#waiting.push(function* () {
      node.kinds = yield* kinds(node);
    });
    return node;
  }

  /** Completes all nodes, and says of each whether it is possible. */
  *settle(): Work<void> {
    for (let work = this.#waiting.shift(); work !== undefined; work = this.#waiting.shift()) {
      yield* work();
      yield;
    }
    for (let changed = true; changed; yield) {
      changed = false;
      this.expander.document.steps.take(this.all.length);
      // What a node is made of stands after it, most often.
      for (const node of this.all.toReversed()) {
        if (this.expander.document.steps.due) yield;
        if (node.possible || !node.kinds.some(isPossible)) continue;
        node.possible = true;
        changed = true;
      }
    }
  }

  *#kinds(goals: readonly Goal[]): Work<readonly Kind[]> {
    const at = { schema: goals[0]?.schema ?? this.place, keyword: 'allOf' };
    const ways = yield* this.expander.together(yield* this.expander.waysOfEach(goals), at);
    const kinds: Kind[] = [];
    for (const way of ways) {
      kinds.push(...(way.values ? yield* this.#valuesOf(way.values, way, goals) : yield* this.#kindsOf(way)));
      yield;
    }
    return kinds;
  }

  *#valuesOf(values: readonly Json[], { types }: Alternative, goals: readonly Goal[]): Work<readonly Kind[]> {
    const valid: Json[] = [];
    for (const value of values) {
      let holds = types.has(typeOf(value));
      for (const goal of goals) holds &&= yield* this.values.holds(value, goal);
      if (holds) valid.push(value);
      yield;
    }
    return valid.length === 0 ? [] : [{ kind: 'values', schema: { enum: valid } }];
  }

  *#kindsOf(way: Alternative): Work<readonly Kind[]> {
    const kinds: Kind[] = [];
    for (const type of TYPES) if (way.types.has(type)) kinds.push(...(yield* this.#kindsOfType(type, way)));
    return kinds;
  }

  *#kindsOfType(type: TypeName, way: Alternative): Work<readonly Kind[]> {
    switch (type) {
      case 'null':
      case 'boolean':
        return [{ kind: 'values', schema: { type } }];
      case 'number':
        return numberSchema(way.number, this);
      case 'string':
        return stringSchema(way.string, this);
      case 'array':
        return yield* listOf(way.list, this);
      case 'object':
        return yield* objectsOf(way.object, this);
    }
  }
}

function isPossible(kind: Kind): boolean {
  if (kind.kind === 'values') return true;
  if (kind.kind === 'list')
    return (
      kind.minItems <= mostItems(kind) &&
      Array.from({ length: Math.min(kind.minItems, kind.prefix.length) }, (_, at) => kind.prefix[at]).every(
        (node) => node?.possible,
      ) &&
      (kind.minItems <= kind.prefix.length || kind.rest.possible)
    );
  return (
    kind.properties.every(({ node, required }) => !required || node?.possible === true) &&
    (kind.more.min === 0 || kind.more.of.some(({ node }) => node.possible))
  );
}

/** Says how many items a list may have: no more unlike ones than there are values. */
function mostItems({ prefix, rest, maxItems = Infinity, unique }: ListKind): number {
  return unique ? Math.min(maxItems, prefix.length + countOf(rest)) : maxItems;
}

function countOf({ kinds }: Node): number {
  return kinds.reduce((sum, kind) => {
    if (kind.kind !== 'values') return Infinity;
    const { enum: values, type } = kind.schema;
    return sum + (Array.isArray(values) ? values.length : type === 'boolean' ? 2 : type === 'null' ? 1 : Infinity);
  }, 0);
}

/** How JSON is written: nothing between the parts, and escapes for what needs them; `short` without those by number. */
const PLAIN = { whitespace_flexible: false, item_separator: ',', key_separator: ':' };
const ESCAPES = { all: 'nrbtf\\"u', short: 'nrbtf\\"' };

/**
 * Writes nodes as the JSON Schema that the grammar's engine reads: no choice in it but `anyOf`, every object and list
 * with all that it may have. @throws UnsupportedSchema
 */
export function* lowered(root: Node, nodes: Nodes): Work<Json> {
  const { steps } = nodes.expander.document;
  const uses = usesFrom(root);
  yield;
  const objects = [...uses.keys()].flatMap((node) =>
    node.kinds.filter((kind): kind is ObjectKind => kind.kind === 'object' && isPossible(kind)),
  );
  // A name may be written twice, and counts once then.
  if (objects.some(({ more }) => more.min > 1)) nodes.leave('minProperties');
  // What stands in several places, or in itself, has a name; scalars are short enough to be written again.
  const named = nodes.all.filter(
    (node) => node !== root && (uses.get(node) ?? 0) > 1 && node.kinds.some(({ kind }) => kind !== 'values'),
  );
  const others = new Map<ObjectKind, readonly OtherNames[]>();
  for (const kind of objects) {
    others.set(kind, yield* otherNames(kind, nodes));
    if (steps.due) yield;
  }
  const write = (othersByPattern: boolean): Work<object> =>
    new SchemaWriter(root, new Set([...named, root]), others, othersByPattern, nodes.bounds, steps).whole(named);
  // Where names besides known ones are written with letters escaped by number, they may be known ones after all: there
  // such escapes are not written.
  const besides = objects.filter(
    ({ properties, more: { of } }) =>
      of.some(({ pattern, node }) => pattern === undefined && node.possible) &&
      (properties.length > 0 || of.length > 1),
  );
  const schema = yield* write(false);
  yield;
  if (besides.length === 0 || !/\\u00[01]/.test(JSON.stringify(schema)))
    return {
      ...schema,
      'x-guidance': { ...PLAIN, json_allowed_escapes: besides.length > 0 ? ESCAPES.short : ESCAPES.all },
    };
  // Other characters than letters may have no other escape.
  const byPattern = besides.every(({ more: { of } }) => of.length <= 1);
  if (!byPattern) nodes.leave('patternProperties');
  return { ...(yield* write(byPattern)), 'x-guidance': { ...PLAIN, json_allowed_escapes: ESCAPES.all } };
}

/** How often each node is referred to. */
function usesFrom(root: Node): ReadonlyMap<Node, number> {
  const uses = new Map([[root, 1]]);
  const waiting = [root];
  for (let node = waiting.pop(); node !== undefined; node = waiting.pop()) {
    for (const below of node.kinds.filter(isPossible).flatMap(belowOf)) {
      if (!below.possible) continue;
      const before = uses.get(below) ?? 0;
      uses.set(below, before + 1);
      if (before === 0) waiting.push(below);
    }
  }
  return uses;
}

class SchemaWriter {
  constructor(
    private readonly root: Node,
    private readonly named: ReadonlySet<Node>,
    private readonly others: ReadonlyMap<ObjectKind, readonly OtherNames[]>,
    private readonly othersByPattern: boolean,
    private readonly bounds: AnswerBounds,
    private readonly steps: Steps,
  ) {}

  *whole(named: readonly Node[]): Work<object> {
    const body = yield* this.#body(this.root);
    if (named.length === 0) return body;
    const $defs: Record<string, Json> = {};
    for (const node of named) $defs[`n${node.number}`] = yield* this.#body(node);
    return { ...body, $defs };
  }

  *#write(node: Node | undefined): Work<Json> {
    if (!node?.possible) return false;
    if (this.named.has(node)) return { $ref: node === this.root ? '#' : `#/$defs/n${node.number}` };
    return yield* this.#body(node);
  }

  *#writeEach(nodes: readonly Node[]): Work<readonly Json[]> {
    const written: Json[] = [];
    for (const node of nodes) written.push(yield* this.#write(node));
    return written;
  }

  *#body(node: Node): Work<JsonObject> {
    this.steps.take(STEPS_A_NODE);
    if (this.steps.due) yield;
    const kinds = node.kinds.filter(isPossible);
    const [only] = kinds;
    if (kinds.length === 1 && only !== undefined) return yield* this.#kind(only);
    const distinct = new Map<string, JsonObject>();
    for (const kind of kinds) {
      const json = yield* this.#kind(kind);
      const text = JSON.stringify(json);
      this.steps.take(text.length);
      if (this.steps.due) yield;
      distinct.set(text, json);
    }
    const [same] = distinct.values();
    return distinct.size === 1 && same !== undefined ? same : { anyOf: [...distinct.values()] };
  }

  *#kind(kind: Kind): Work<JsonObject> {
    if (kind.kind === 'values') return kind.schema;
    if (kind.kind === 'object') return yield* this.#object(kind);
    const { prefix, rest, minItems } = kind;
    const most = mostItems(kind);
    const bound = Math.max(this.bounds.items, minItems, prefix.length);
    return {
      type: 'array',
      ...(prefix.length > 0 && { prefixItems: yield* this.#writeEach(prefix) }),
      items: yield* this.#write(rest),
      ...(minItems > 0 && { minItems }),
      ...((most !== Infinity || rest.possible) && { maxItems: most === Infinity ? bound : most }),
    };
  }

  *#byName(named: readonly { readonly name: string; readonly node: Node | undefined }[]): Work<JsonObject> {
    const written: (readonly [string, Json])[] = [];
    for (const { name, node } of named) written.push([name, yield* this.#write(node)]);
    return Object.fromEntries(written);
  }

  *#object(kind: ObjectKind): Work<JsonObject> {
    const { properties, more } = kind;
    const required = properties.filter((property) => property.required).map(({ name }) => name);
    const names = properties.map(({ name }) => name);
    const written = this.others.get(kind) ?? [];
    const of =
      this.othersByPattern && names.length > 0
        ? written.map((others) => ({ ...others, pattern: others.pattern ?? noneOf(names) }))
        : written;
    const patterns = of.filter(({ pattern }) => pattern !== undefined);
    const others = of.filter(({ pattern, node }) => pattern === undefined && node.possible).map(({ node }) => node);
    const free = properties.some((property) => !property.required && property.node?.possible === true);
    return {
      type: 'object',
      properties: yield* this.#byName(properties),
      ...(required.length > 0 && { required }),
      ...(patterns.length > 0 && {
        patternProperties: yield* this.#byName(
          patterns.map(({ pattern = '', node }) => ({ name: quotable(pattern), node })),
        ),
      }),
      additionalProperties:
        others.length <= 1 ? yield* this.#write(others[0]) : { anyOf: yield* this.#writeEach(others) },
      ...(more.min > 0 && { minProperties: required.length + more.min }),
      ...(more.max !== undefined && { maxProperties: required.length + more.max }),
      // Beside properties that may be there the grammar's engine counts no others.
      ...(more.max === undefined &&
        !free &&
        of.length > 0 && { maxProperties: required.length + Math.max(this.bounds.items, more.min) }),
    };
  }
}

/** Steps that writing a node takes, roughly. */
const STEPS_A_NODE = 20;

function belowOf(kind: Kind): readonly Node[] {
  if (kind.kind === 'values') return [];
  if (kind.kind === 'list') return [...kind.prefix, kind.rest];
  return [...kind.properties.flatMap(({ node }) => node ?? []), ...kind.more.of.map(({ node }) => node)];
}

/** Every item's node, of all that is said of it. */
function* listOf({ minItems, maxItems, unique, layers }: ListRule, nodes: NodeMaker): Work<readonly ListKind[]> {
  if (minItems > (maxItems ?? Infinity)) return [];
  const length = Math.min(maxItems ?? Infinity, Math.max(0, ...layers.map(({ prefix }) => prefix.length)));
  const prefix: Node[] = [];
  for (let at = 0; at < length; at++) {
    prefix.push(nodes.of(layers.map(({ prefix: own, rest }) => (at < own.length ? own[at] : rest))));
    if (nodes.expander.document.steps.due) yield;
  }
  return [
    {
      kind: 'list',
      minItems,
      unique,
      ...(maxItems !== undefined && { maxItems }),
      prefix,
      rest: nodes.of(layers.map(({ rest }) => rest)),
    },
  ];
}
