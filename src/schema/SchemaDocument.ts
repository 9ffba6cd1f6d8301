import { Steps } from '../regex/Steps.js';
import { found } from '../arguments/found.js';
import { isObject } from '../arguments/isObject.js';
import { ResponseFormatError } from '../errors/RowError.js';
import { DRAFTS, type Json, type JsonObject, KEYWORDS, OLDER, subschemas, wrongValue } from './keywords.js';
import { SCHEMA_LIMITS } from './limits.js';

/** A schema somewhere in a document. */
export interface Subschema {
  /** Its number, which tells it from all others of the document. */
  readonly id: number;
  readonly pointer: string;
  readonly schema: boolean | JsonObject;
  /** What references in it are relative to. */
  readonly base: string;
}

/** Of a document that does not say what it is called; never looked up. */
const NAMELESS = 'https://schema.invalid/';

/**
 * A JSON Schema as a whole: its schemas by pointer, by name and by anchor. Plain data, checked for size and for what
 * each keyword must hold.
 */
export class SchemaDocument {
  /** For all that is made of it. */
  readonly steps = new Steps(SCHEMA_LIMITS.steps);
  readonly root: Subschema;
  readonly #value: Json;
  readonly #byPointer = new Map<string, Subschema>();
  /** By address, without a fragment or with an anchor as one. */
  readonly #byAddress = new Map<string, Subschema>();
  readonly #dynamicAnchors = new Map<string, number>();

  /** @throws UnsupportedSchema */
  constructor(given: unknown) {
    this.#value = plainCopy(given);
    this.root = this.#enter('', this.#value, NAMELESS);
    if (!this.#byAddress.has(NAMELESS)) this.#byAddress.set(NAMELESS, this.root);
  }

  /** Every schema that was found, by its number. */
  get all(): readonly Subschema[] {
    return [...this.#byPointer.values()];
  }

  /** The schema at this place below another one. */
  below({ pointer }: Subschema, rest: string): Subschema {
    const there = this.#byPointer.get(pointer + rest);
    if (there === undefined) throw new UnsupportedSchema(pointer + rest, undefined, 'found no schema there');
    return there;
  }

  /** What a `$ref` refers to. @throws UnsupportedSchema for what is not in this document */
  resolve(from: Subschema, reference: string, keyword: '$ref' | '$dynamicRef' = '$ref'): Subschema {
    const at = `${from.pointer}/${keyword}`;
    const missing = (why: string): UnsupportedSchema =>
      new UnsupportedSchema(at, keyword, `found ${found(reference)}, ${why}`);
    const address = addressOf(reference, from.base);
    if (address === undefined) throw missing('which is no address');
    const [resource, fragment] = splitAt(address, '#');
    const owner = this.#byAddress.get(resource);
    if (owner === undefined) throw missing('which is not in this schema: nothing is fetched; put it into $defs');
    if (fragment === '') return owner;
    if (!fragment.startsWith('/')) {
      const anchored = this.#byAddress.get(address);
      if (anchored === undefined) throw missing('an anchor that is not in this schema');
      return anchored;
    }
    const path = decoded(fragment);
    if (path === undefined) throw missing('which is no JSON pointer');
    return this.#at(owner, path) ?? throwing(missing('a place where no schema is'));
  }

  /** What a `$dynamicRef` refers to, wherever it is come from. @throws UnsupportedSchema where that depends on it */
  resolveDynamic(from: Subschema, reference: string): Subschema {
    const target = this.resolve(from, reference, '$dynamicRef');
    const anchor = isObject(target.schema) ? target.schema['$dynamicAnchor'] : undefined;
    // Only an anchor that was made for it is looked for elsewhere.
    if (typeof anchor !== 'string' || !reference.endsWith(`#${anchor}`) || this.#dynamicAnchors.get(anchor) === 1)
      return target;
    throw new UnsupportedSchema(
      `${from.pointer}/$dynamicRef`,
      '$dynamicRef',
      `found ${found(reference)}, which may refer to several schemas, expected one place with this $dynamicAnchor`,
    );
  }

  #at(owner: Subschema, path: string): Subschema | undefined {
    const pointer = owner.pointer + path;
    const known = this.#byPointer.get(pointer);
    if (known !== undefined) return known;
    let value: Json | undefined = this.#value;
    let base = owner.base;
    let walked = '';
    for (const part of pointer.split('/').slice(1)) {
      if (value === undefined || value === null || typeof value !== 'object') return undefined;
      const name = part.replaceAll('~1', '/').replaceAll('~0', '~');
      value = Array.isArray(value)
        ? /^(0|[1-9]\d*)$/.test(name)
          ? (value[Number(name)] as Json | undefined)
          : undefined
        : (value as JsonObject)[name];
      walked += `/${part}`;
      base = this.#byPointer.get(walked)?.base ?? base;
    }
    return typeof value === 'boolean' || isObject(value) ? this.#enter(pointer, value, base) : undefined;
  }

  #enter(pointer: string, schema: Json, base: string): Subschema {
    if (typeof schema !== 'boolean' && !isObject(schema))
      throw new UnsupportedSchema(
        pointer,
        undefined,
        `found ${found(schema)}, expected a schema: an object, true or false`,
      );
    if (this.#byPointer.size >= SCHEMA_LIMITS.schemas)
      throw new UnsupportedSchema(
        pointer,
        undefined,
        `found more than ${SCHEMA_LIMITS.schemas} schemas, expected at most so many`,
      );
    if (typeof schema === 'boolean') return this.#add(pointer, schema, base);
    checkKeywords(schema, pointer);
    const own = this.#baseOf(schema, pointer, base);
    const entered = this.#add(pointer, schema, own);
    this.#name(entered, own !== base);
    for (const [rest, below] of subschemas(schema))
      if (!this.#byPointer.has(pointer + rest)) this.#enter(pointer + rest, below, own);
    return entered;
  }

  #add(pointer: string, schema: boolean | JsonObject, base: string): Subschema {
    const entered = { id: this.#byPointer.size, pointer, schema, base };
    this.#byPointer.set(pointer, entered);
    return entered;
  }

  #baseOf({ $id: id }: JsonObject, pointer: string, base: string): string {
    if (typeof id !== 'string') return base;
    const address = addressOf(id, base);
    if (address === undefined || /#./.test(address))
      throw new UnsupportedSchema(
        `${pointer}/$id`,
        undefined,
        `found ${found(id)}, expected an address without a fragment`,
      );
    return address.replace(/#$/, '');
  }

  #name(entered: Subschema, isResource: boolean): void {
    const { schema, base, pointer } = entered;
    const { $anchor: anchor, $dynamicAnchor: dynamic } = schema as JsonObject;
    const names = [
      ...(isResource ? [base] : []),
      ...[anchor, dynamic].filter((name) => typeof name === 'string').map((name) => `${base}#${name}`),
    ];
    for (const name of names) {
      const other = this.#byAddress.get(name);
      if (other !== undefined)
        throw new UnsupportedSchema(
          pointer,
          undefined,
          `found two schemas called ${found(name)}, the other at ${other.pointer}`,
        );
      this.#byAddress.set(name, entered);
    }
    if (typeof dynamic === 'string') this.#dynamicAnchors.set(dynamic, (this.#dynamicAnchors.get(dynamic) ?? 0) + 1);
  }
}

function checkKeywords(schema: JsonObject, pointer: string): void {
  for (const [keyword, value] of Object.entries(schema)) {
    const wrong = value === undefined ? undefined : wrongValue(keyword, value);
    if (wrong !== undefined) throw new UnsupportedSchema(`${pointer}/${keyword}`, undefined, wrong);
    if (OLDER.includes(keyword))
      throw new UnsupportedSchema(
        `${pointer}/${keyword}`,
        keyword,
        'found a keyword of an earlier draft, expected those of 2020-12',
      );
  }
  const { $schema: draft } = schema;
  if (typeof draft === 'string' && !DRAFTS.has(draft.replace(/#$/, ''))) {
    throw new UnsupportedSchema(
      `${pointer}/$schema`,
      '$schema',
      `found ${found(draft)}, expected https://json-schema.org/draft/2020-12/schema`,
    );
  }
}

/** What was given as JSON data of our own: nothing in it is a program, or changes later. */
function plainCopy(given: unknown): Json {
  let text: string | undefined;
  try {
    text = JSON.stringify(given);
  } catch (error) {
    throw new UnsupportedSchema('', undefined, `found ${found(given)}, expected what can be written as JSON`, {
      cause: error,
    });
  }
  if (text === undefined)
    throw new UnsupportedSchema('', undefined, `found ${found(given)}, expected a schema: an object, true or false`);
  if (text.length > SCHEMA_LIMITS.textUnits)
    throw new UnsupportedSchema(
      '',
      undefined,
      `found ${text.length} characters, expected at most ${SCHEMA_LIMITS.textUnits}`,
    );
  return bare(JSON.parse(text), SCHEMA_LIMITS.depth);
}

/**
 * JSON data without prototypes.
 * @param depth objects and arrays that may lie inside of one another. @throws UnsupportedSchema beyond
 */
export function bare(value: unknown, depth = Infinity): Json {
  if (typeof value !== 'object' || value === null) return value as Json;
  if (depth === 0)
    throw new UnsupportedSchema(
      '',
      undefined,
      `found more than ${SCHEMA_LIMITS.depth} objects and lists inside of one another, expected at most so many`,
    );
  if (Array.isArray(value)) return value.map((one) => bare(one, depth - 1));
  const copy = Object.create(null) as Record<string, Json>;
  for (const [name, one] of Object.entries(value)) copy[name] = bare(one, depth - 1);
  return copy;
}

/** Whether the schema says nothing about which values are valid. */
export function isEmpty(schema: boolean | JsonObject): boolean {
  return schema === true || (isObject(schema) && !Object.keys(schema).some((keyword) => KEYWORDS.has(keyword)));
}

function addressOf(reference: string, base: string): string | undefined {
  return URL.canParse(reference, base) ? new URL(reference, base).href : undefined;
}

function splitAt(text: string, mark: string): [string, string] {
  const at = text.indexOf(mark);
  return at < 0 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)];
}

function decoded(fragment: string): string | undefined {
  try {
    return decodeURIComponent(fragment);
  } catch {
    return undefined;
  }
}

function throwing(error: Error): never {
  throw error;
}

/** A schema that cannot be held to, with the JSON pointer of the place: nothing of it is left out in silence. */
export class UnsupportedSchema extends ResponseFormatError {
  /**
   * @param keyword that cannot be enforced, as the documents list it; undefined where the schema is none, or too large
   */
  constructor(
    readonly pointer: string,
    keyword: string | undefined,
    problem: string,
    options?: ErrorOptions,
  ) {
    super(`schema, at ${pointer === '' ? 'its root' : pointer}: ${problem}`, pointer, keyword, options);
  }
}
