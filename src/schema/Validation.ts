import { format } from '@cfworker/json-schema';
import { found } from '../arguments/found.js';
import type { Work } from '../collections/drained.js';
import type { Steps } from '../regex/Steps.js';
import { canonicalInParts, textsInParts } from './Alternative.js';
import { escaped, type Json, type JsonObject } from './keywords.js';
import { SCHEMA_LIMITS } from './limits.js';
import type { PatternTests } from './PatternTests.js';

/** A schema whose references are resolved: `$ref` names one of those that the validation is given. */
export type CheckedSchema = boolean | { readonly [keyword: string]: unknown };

/**
 * The parts of a list or an object that one schema and those beside it have looked at: what is unevaluated is the rest.
 */
interface Seen {
  readonly names: Set<string>;
  /** Items below this index. */
  items: number;
  readonly contained: Set<number>;
}

/** Steps for each schema that a value is held to. */
const SCHEMA_STEPS = 16;

/**
 * Holds values to schemas (JSON Schema 2020-12), and counts what that takes: the same value goes beyond the limit on
 * every machine, or on none.
 */
export class Validation {
  constructor(
    private readonly schemas: Readonly<Record<string, CheckedSchema>>,
    private readonly patterns: PatternTests,
    private readonly steps: Steps,
  ) {}

  /** Says in words what is wrong with a value; undefined where nothing is. @throws StepLimit */
  problem(value: Json, schema: CheckedSchema): Work<string | undefined> {
    return this.#problem(value, schema, '#', newSeen());
  }

  *#isValid(value: Json, schema: CheckedSchema, at: string, seen = newSeen()): Work<boolean> {
    return (yield* this.#problem(value, schema, at, seen)) === undefined;
  }

  *#problem(value: Json, schema: CheckedSchema, at: string, seen: Seen): Work<string | undefined> {
    this.steps.take(SCHEMA_STEPS);
    if (this.steps.due) yield;
    if (schema === true) return undefined;
    if (schema === false) return `${at}: False boolean schema.`;
    const own = newSeen();
    const wrong =
      (yield* this.#values(value, schema, at)) ??
      (typeof value === 'string' ? yield* this.#text(value, schema, at) : undefined) ??
      (typeof value === 'number' ? number(value, schema, at) : undefined) ??
      (yield* this.#combined(value, schema, at, own)) ??
      (Array.isArray(value)
        ? yield* this.#list(value as readonly Json[], schema, at, own)
        : isObject(value)
          ? yield* this.#object(value, schema, at, own)
          : undefined);
    if (wrong === undefined) merge(seen, own);
    return wrong;
  }

  *#values(value: Json, { type, const: only, enum: some }: Keywords, at: string): Work<string | undefined> {
    const types = type === undefined ? undefined : ((Array.isArray(type) ? type : [type]) as readonly string[]);
    if (types && !types.some((one) => isOfType(value, one)))
      return `${at}: Instance type "${typeWord(value)}" is invalid. Expected "${types.join('", "')}".`;
    if (only !== undefined && (yield* this.#canonical(value)) !== (yield* this.#canonical(only as Json)))
      return `${at}: Instance does not match ${found(only)}.`;
    if (some !== undefined && !(yield* textsInParts(some as readonly Json[])).has(yield* this.#canonical(value)))
      return `${at}: Instance does not match any of ${brief(some as readonly Json[])}.`;
    return undefined;
  }

  /** One text for equal values. */
  #canonical(value: Json): Work<string> {
    return canonicalInParts(value, this.steps);
  }

  #matches(pattern: string, text: string): Work<boolean> {
    return this.patterns.test(pattern, text, this.steps);
  }

  *#text(
    value: string,
    { minLength, maxLength, pattern, format: name }: Keywords,
    at: string,
  ): Work<string | undefined> {
    if (minLength !== undefined || maxLength !== undefined) {
      this.steps.take(value.length);
      let length = 0;
      for (let i = 0; i < value.length; length++) i += (value.codePointAt(i) ?? 0) > 0xffff ? 2 : 1;
      if (length < ((minLength ?? 0) as number))
        return `${at}: String is too short (${length} < ${String(minLength)}).`;
      if (length > ((maxLength ?? Infinity) as number))
        return `${at}: String is too long (${length} > ${String(maxLength)}).`;
    }
    if (pattern !== undefined && !(yield* this.#matches(pattern as string, value)))
      return `${at}: String does not match pattern.`;
    if (name !== undefined && !this.#hasFormat(value, name as string))
      return `${at}: String does not match format "${name as string}".`;
    return undefined;
  }

  #hasFormat(value: string, name: string): boolean {
    this.steps.take(value.length);
    return value.length <= SCHEMA_LIMITS.formatUnits && format[name]?.(value) !== false;
  }

  *#combined(value: Json, schema: Keywords, at: string, seen: Seen): Work<string | undefined> {
    const { $ref, not, allOf = [], anyOf, oneOf, if: condition, then = true, else: otherwise = true } = schema;
    if ($ref !== undefined) {
      const wrong = yield* this.#problem(value, this.schemas[$ref as string] ?? false, at, seen);
      if (wrong !== undefined) return wrong;
    }
    if (not !== undefined && (yield* this.#isValid(value, not as CheckedSchema, at)))
      return `${at}: Instance matched "not" schema.`;
    for (const one of allOf as readonly CheckedSchema[]) {
      const wrong = yield* this.#problem(value, one, at, seen);
      if (wrong !== undefined) return wrong;
    }
    if (anyOf !== undefined) {
      // Each that holds says what it has looked at.
      const count = yield* this.#count(value, anyOf as readonly CheckedSchema[], at, seen);
      if (count === 0) return `${at}: Instance does not match any subschemas.`;
    }
    if (oneOf !== undefined) {
      const count = yield* this.#count(value, oneOf as readonly CheckedSchema[], at, seen);
      if (count !== 1) return `${at}: Instance does not match exactly one subschema (${count} matches).`;
    }
    if (condition === undefined) return undefined;
    const holds = yield* this.#isValid(value, condition as CheckedSchema, at, seen);
    return yield* this.#problem(value, (holds ? then : otherwise) as CheckedSchema, at, seen);
  }

  /** How many of them hold. */
  *#count(value: Json, some: readonly CheckedSchema[], at: string, seen: Seen): Work<number> {
    let count = 0;
    for (const one of some) if (yield* this.#isValid(value, one, at, seen)) count += 1;
    return count;
  }

  *#list(value: readonly Json[], schema: Keywords, at: string, seen: Seen): Work<string | undefined> {
    const {
      minItems = 0,
      maxItems = Infinity,
      uniqueItems,
      prefixItems = [],
      items,
      contains,
      unevaluatedItems,
    } = schema;
    if (value.length < (minItems as number))
      return `${at}: Array has too few items (${value.length} < ${String(minItems)}).`;
    if (value.length > (maxItems as number))
      return `${at}: Array has too many items (${value.length} > ${String(maxItems)}).`;
    const prefix = prefixItems as readonly CheckedSchema[];
    for (const [i, item] of items === undefined ? value.slice(0, prefix.length).entries() : value.entries()) {
      const one = prefix[i] ?? (items as CheckedSchema | undefined);
      if (one === undefined) continue;
      const wrong = yield* this.#problem(item, one, `${at}/${i}`, newSeen());
      if (wrong !== undefined) return wrong;
    }
    seen.items = Math.max(seen.items, items === undefined ? Math.min(prefix.length, value.length) : value.length);
    if (contains !== undefined) {
      const { minContains = 1, maxContains = Infinity } = schema as { minContains?: number; maxContains?: number };
      const matching: number[] = [];
      for (const [i, item] of value.entries())
        if (yield* this.#isValid(item, contains as CheckedSchema, `${at}/${i}`)) matching.push(i);
      const { length } = matching;
      if (length < minContains) return `${at}: Array has fewer items (${length}) that match than expected.`;
      if (length > maxContains) return `${at}: Array has more items (${length}) that match than expected.`;
      for (const i of matching) seen.contained.add(i);
    }
    if (unevaluatedItems !== undefined) {
      for (const [i, item] of value.entries()) {
        if (i < seen.items || seen.contained.has(i)) continue;
        const wrong = yield* this.#problem(item, unevaluatedItems as CheckedSchema, `${at}/${i}`, newSeen());
        if (wrong !== undefined) return wrong;
      }
      seen.items = value.length;
    }
    if (uniqueItems !== true) return undefined;
    const texts = new Set<string>();
    for (const item of value) {
      const text = yield* this.#canonical(item);
      if (texts.has(text)) return `${at}: Duplicate items.`;
      texts.add(text);
    }
    return undefined;
  }

  *#object(value: JsonObject, schema: Keywords, at: string, seen: Seen): Work<string | undefined> {
    const names = Object.keys(value);
    this.steps.take(names.length);
    const { required = [], minProperties = 0, maxProperties = Infinity, propertyNames } = schema;
    const missing = (required as readonly string[]).find((name) => !Object.hasOwn(value, name));
    if (missing !== undefined) return `${at}: Instance does not have required property "${missing}".`;
    if (names.length < (minProperties as number))
      return `${at}: Instance has fewer than ${String(minProperties)} properties.`;
    if (names.length > (maxProperties as number))
      return `${at}: Instance has more than ${String(maxProperties)} properties.`;
    if (propertyNames !== undefined)
      for (const name of names)
        if (!(yield* this.#isValid(name, propertyNames as CheckedSchema, at)))
          return `${at}: Property name "${name}" does not match schema.`;
    const wrong = yield* this.#dependent(value, schema, at, seen);
    return wrong ?? (yield* this.#properties(value, names, schema, at, seen));
  }

  *#dependent(
    value: JsonObject,
    { dependentRequired = {}, dependentSchemas = {} }: Keywords,
    at: string,
    seen: Seen,
  ): Work<string | undefined> {
    for (const [name, needed] of Object.entries(dependentRequired as Record<string, readonly string[]>)) {
      const missing = Object.hasOwn(value, name) ? needed.find((other) => !Object.hasOwn(value, other)) : undefined;
      if (missing !== undefined) return `${at}: Instance has "${name}" but does not have "${missing}".`;
    }
    for (const [name, schema] of Object.entries(dependentSchemas as Record<string, CheckedSchema>)) {
      const wrong = Object.hasOwn(value, name) ? yield* this.#problem(value, schema, at, seen) : undefined;
      if (wrong !== undefined) return wrong;
    }
    return undefined;
  }

  *#properties(
    value: JsonObject,
    names: readonly string[],
    schema: Keywords,
    at: string,
    seen: Seen,
  ): Work<string | undefined> {
    const { properties = {}, patternProperties = {}, additionalProperties, unevaluatedProperties } = schema;
    const listed = properties as Record<string, CheckedSchema>;
    const byPattern = Object.entries(patternProperties as Record<string, CheckedSchema>);
    const hold = (name: string, one: CheckedSchema): Work<string | undefined> => {
      seen.names.add(name);
      return this.#problem(value[name] ?? null, one, `${at}/${escaped(name)}`, newSeen());
    };
    for (const name of names) {
      const own = Object.hasOwn(listed, name) ? listed[name] : undefined;
      const held = own === undefined ? [] : [own];
      for (const [pattern, one] of byPattern) if (yield* this.#matches(pattern, name)) held.push(one);
      if (held.length === 0 && additionalProperties !== undefined) held.push(additionalProperties as CheckedSchema);
      for (const one of held) {
        const wrong = yield* hold(name, one);
        if (wrong !== undefined) return wrong;
      }
    }
    if (unevaluatedProperties === undefined) return undefined;
    for (const name of names) {
      const wrong = seen.names.has(name) ? undefined : yield* hold(name, unevaluatedProperties as CheckedSchema);
      if (wrong !== undefined) return wrong;
    }
    return undefined;
  }
}

type Keywords = Readonly<Record<string, unknown>>;

function newSeen(): Seen {
  return { names: new Set(), items: 0, contained: new Set() };
}

function merge(seen: Seen, more: Seen): void {
  for (const name of more.names) seen.names.add(name);
  for (const item of more.contained) seen.contained.add(item);
  seen.items = Math.max(seen.items, more.items);
}

/** The first few, in words. */
function brief(values: readonly Json[]): string {
  return `${values.slice(0, 5).map(found).join(', ')}${values.length > 5 ? `, … (${values.length})` : ''}`;
}

function isObject(value: Json): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function typeWord(value: Json): string {
  return value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value;
}

function isOfType(value: Json, type: string): boolean {
  return type === 'integer' ? Number.isInteger(value) : typeWord(value) === type;
}

function number(value: number, schema: Keywords, at: string): string | undefined {
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf } = schema as Record<
    string,
    number | undefined
  >;
  if (minimum !== undefined && value < minimum) return `${at}: ${value} is less than ${minimum}.`;
  if (maximum !== undefined && value > maximum) return `${at}: ${value} is greater than ${maximum}.`;
  if (exclusiveMinimum !== undefined && value <= exclusiveMinimum)
    return `${at}: ${value} is less than ${exclusiveMinimum}.`;
  if (exclusiveMaximum !== undefined && value >= exclusiveMaximum)
    return `${at}: ${value} is greater than or equal to ${exclusiveMaximum}.`;
  if (multipleOf !== undefined && !isMultiple(value, multipleOf))
    return `${at}: ${value} is not a multiple of ${multipleOf}.`;
  return undefined;
}

/** By their decimal digits: what is written counts, not what doubles make of it. */
function isMultiple(value: number, divisor: number): boolean {
  const [[digits, exponent], [others, other]] = [decimal(value), decimal(divisor)];
  const least = Math.min(exponent, other);
  return (digits * 10n ** BigInt(exponent - least)) % (others * 10n ** BigInt(other - least)) === 0n;
}

function decimal(value: number): readonly [bigint, number] {
  const [coefficient = '0', exponent = '0'] = Math.abs(value).toString().split('e');
  const fraction = coefficient.split('.')[1]?.length ?? 0;
  return [BigInt(coefficient.replace('.', '')), Number(exponent) - fraction];
}
