import { drained, type Work } from '../collections/drained.js';
import { Steps } from '../regex/Steps.js';
import { found } from '../arguments/found.js';
import { isObject } from '../arguments/isObject.js';
import { ResponseFormatError } from '../errors/RowError.js';
import { type Draft, draftNamed, EXPECTED_DRAFTS, inWordsOf2020, type Reading, RECURSIVE } from './drafts.js';
import { type Json, type JsonObject, subschemas, wrongValue } from './keywords.js';
import { SCHEMA_LIMITS } from './limits.js';

/** A schema somewhere in a document. */
export interface Subschema {
  /** Its number, which tells it from all others of the document. */
  readonly id: number;
  readonly pointer: string;
  /** In the words of 2020-12, whatever its draft. */
  readonly schema: boolean | JsonObject;
  /** The names of its keywords where they are written, if they differ. */
  readonly written: ReadonlyMap<string, string>;
  /** The base address of references in it. */
  readonly base: string;
  /** None where the document says none. */
  readonly draft: Draft | undefined;
}

/** Where a keyword of a schema, or what lies in it, is written. */
export function pointerOf({ pointer, written }: Pick<Subschema, 'pointer' | 'written'>, rest: string): string {
  const [, keyword = '', below = ''] = /^\/([^/]*)(.*)$/s.exec(rest) ?? [];
  return `${pointer}/${written.get(keyword) ?? keyword}${below}`;
}

/** Schemas, and values, between two moments at which reading them may stop. */
const [SLICE_SCHEMAS, SLICE_VALUES] = [256, 4096];

/** The address of a document that does not say what it is called; never looked up. */
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
  readonly #byAddress = new Map<string, Subschema | 'several'>();
  readonly #dynamicAnchors = new Map<string, number>();

  private constructor(value: Json) {
    this.#value = value;
    this.root = this.#enter('', value, NAMELESS, undefined);
    if (!this.#byAddress.has(NAMELESS)) this.#byAddress.set(NAMELESS, this.root);
  }

  /** @throws UnsupportedSchema */
  static of(given: unknown): SchemaDocument {
    return drained(SchemaDocument.inParts(given));
  }

  /** The same in slices. @throws UnsupportedSchema */
  static *inParts(given: unknown): Work<SchemaDocument> {
    const document = new SchemaDocument(yield* plainCopy(given));
    yield* document.#enterBelow(document.root);
    return document;
  }

  /** Every schema that was found, by its number. */
  get all(): readonly Subschema[] {
    return [...this.#byPointer.values()];
  }

  /** Addresses of schemas that this one refers to and does not hold. */
  outside(): readonly string[] {
    const addresses = this.all.flatMap(({ schema, base }) =>
      (isObject(schema) ? [schema['$ref'], schema['$dynamicRef']] : []).flatMap((reference) => {
        const address = typeof reference === 'string' ? addressOf(reference, base) : undefined;
        return address === undefined ? [] : [splitAt(address, '#')[0]];
      }),
    );
    return [...new Set(addresses)].filter((address) => !this.#byAddress.has(address));
  }

  /** The schema at this place below another one. */
  below(schema: Subschema, rest: string): Subschema {
    const pointer = pointerOf(schema, rest);
    const there = this.#byPointer.get(pointer);
    if (there === undefined) throw new UnsupportedSchema(pointer, undefined, 'found no schema there');
    return there;
  }

  /** Finds what a `$ref` refers to. @throws UnsupportedSchema for what is not in this document */
  resolve(from: Subschema, reference: string, keyword: '$ref' | '$dynamicRef' = '$ref'): Subschema {
    const at = pointerOf(from, `/${keyword}`);
    const missing = (why: string): UnsupportedSchema =>
      new UnsupportedSchema(at, keyword, `found ${found(reference)}, ${why}`);
    const address = addressOf(reference, from.base);
    if (address === undefined) throw missing('which is no address');
    const [resource, fragment] = splitAt(address, '#');
    const owner = this.#byAddress.get(resource);
    if (owner === undefined)
      throw missing(
        'which is not in this schema: nothing is fetched; put it into $defs, or the file into a folder of schemas (--schema-dir)',
      );
    if (owner === 'several') throw missing('which several schemas are called');
    if (fragment === '') return owner;
    if (!fragment.startsWith('/')) {
      const anchored = this.#byAddress.get(address);
      if (anchored === undefined) throw missing('an anchor that is not in this schema');
      if (anchored === 'several') throw missing('which several schemas are called');
      return anchored;
    }
    const path = decoded(fragment);
    if (path === undefined) throw missing('which is no JSON pointer');
    return this.#at(owner, path) ?? throwing(missing('a place where no schema is'));
  }

  /**
   * Finds the schema that a `$dynamicRef` refers to, wherever it is come from. @throws UnsupportedSchema where that
   * depends on it
   */
  resolveDynamic(from: Subschema, reference: string): Subschema {
    const target = this.resolve(from, reference, '$dynamicRef');
    const anchor = isObject(target.schema) ? target.schema['$dynamicAnchor'] : undefined;
    // Only an anchor that was made for it is looked for elsewhere.
    if (typeof anchor !== 'string' || this.#dynamicAnchors.get(anchor) === 1) return target;
    if (anchor === RECURSIVE ? !from.written.has('$dynamicRef') : !reference.endsWith(`#${anchor}`)) return target;
    throw new UnsupportedSchema(
      pointerOf(from, '/$dynamicRef'),
      pointerOf(from, '/$dynamicRef').split('/').at(-1),
      `found ${found(reference)}, which may refer to several schemas, expected one place with this $dynamicAnchor`,
    );
  }

  #at(owner: Subschema, path: string): Subschema | undefined {
    const pointer = owner.pointer + path;
    const known = this.#byPointer.get(pointer);
    if (known !== undefined) return known;
    let value: Json | undefined = this.#value;
    let { base, draft } = owner;
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
      ({ base, draft } = this.#byPointer.get(walked) ?? { base, draft });
    }
    if (typeof value !== 'boolean' && !isObject(value)) return undefined;
    const entered = this.#enter(pointer, value, base, draft);
    drained(this.#enterBelow(entered));
    return entered;
  }

  #enter(pointer: string, schema: Json, base: string, draftAbove: Draft | undefined): Subschema {
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
    if (typeof schema === 'boolean')
      return this.#add({ pointer, schema, base, draft: draftAbove, written: new Map<string, string>() });
    const draft = draftOf(schema, pointer, draftAbove);
    const reading = inWordsOf2020(schema, draft);
    const own = this.#baseOf({ pointer, ...reading }, base);
    const entered = this.#add({ pointer, ...reading, draft, base: own });
    checkKeywords(entered, reading.schema);
    this.#name(entered, own !== base);
    return entered;
  }

  /** Enters what lies in a schema. */
  *#enterBelow({ schema, base, draft, ...place }: Subschema): Work<void> {
    if (typeof schema === 'boolean') return;
    for (const [rest, below] of subschemas(schema)) {
      const pointer = pointerOf(place, rest);
      if (this.#byPointer.has(pointer)) continue;
      const entered = this.#enter(pointer, below, base, draft);
      if (this.#byPointer.size % SLICE_SCHEMAS === 0) yield;
      yield* this.#enterBelow(entered);
    }
  }

  #add(given: Omit<Subschema, 'id'>): Subschema {
    const entered = { id: this.#byPointer.size, ...given };
    this.#byPointer.set(entered.pointer, entered);
    return entered;
  }

  #baseOf(place: Reading & { readonly pointer: string }, base: string): string {
    const { $id: id } = place.schema;
    if (typeof id !== 'string') return base;
    const address = addressOf(id, base);
    if (address === undefined || /#./.test(address))
      throw new UnsupportedSchema(
        pointerOf(place, '/$id'),
        undefined,
        `found ${found(id)}, expected an address without a fragment`,
      );
    return address.replace(/#$/, '');
  }

  #name(entered: Subschema, isResource: boolean): void {
    const { schema, base } = entered;
    const { $anchor: anchor, $dynamicAnchor: dynamic } = schema as JsonObject;
    const names = [
      ...(isResource ? [base] : []),
      ...[anchor, dynamic].filter((name) => typeof name === 'string').map((name) => `${base}#${name}`),
    ];
    for (const name of names) {
      const other = this.#byAddress.get(name);
      // Two of one name are no matter unless somebody refers to it; the root is the one that references in it mean.
      if (other === undefined) this.#byAddress.set(name, entered);
      else if (other === 'several' || other.pointer !== '') this.#byAddress.set(name, 'several');
    }
    if (typeof dynamic === 'string') this.#dynamicAnchors.set(dynamic, (this.#dynamicAnchors.get(dynamic) ?? 0) + 1);
  }
}

function checkKeywords(place: Subschema, schema: JsonObject): void {
  for (const [keyword, value] of Object.entries(schema)) {
    const wrong = value === undefined ? undefined : wrongValue(keyword, value);
    if (wrong !== undefined) throw new UnsupportedSchema(pointerOf(place, `/${keyword}`), undefined, wrong);
  }
}

/** Reads the draft that `$schema` names: of the whole document, or of a schema in it that has a name of its own. */
function draftOf(schema: JsonObject, pointer: string, above: Draft | undefined): Draft | undefined {
  const { $schema: address, $id: id = schema['id'] } = schema;
  if (typeof address !== 'string' || (pointer !== '' && typeof id !== 'string')) return above;
  const draft = draftNamed(address);
  if (draft === false)
    throw new UnsupportedSchema(
      `${pointer}/$schema`,
      '$schema',
      `found ${found(address)}, expected one of ${EXPECTED_DRAFTS}`,
    );
  return draft;
}

/** Copies what was given as JSON data of our own: nothing in it is a program, or changes later. */
function* plainCopy(given: unknown): Work<Json> {
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
  yield;
  const read: unknown = JSON.parse(text);
  yield;
  return yield* bareInParts(read, SCHEMA_LIMITS.depth, { values: 0 });
}

/** JSON data without prototypes. */
export function bare(value: unknown): Work<Json> {
  return bareInParts(value, Infinity, { values: 0 });
}

/** @param depth objects and arrays that may lie inside of one another. @throws UnsupportedSchema beyond */
function* bareInParts(value: unknown, depth: number, looked: { values: number }): Work<Json> {
  if (typeof value !== 'object' || value === null) return value as Json;
  if (depth === 0)
    throw new UnsupportedSchema(
      '',
      undefined,
      `found more than ${SCHEMA_LIMITS.depth} objects and lists inside of one another, expected at most so many`,
    );
  if ((looked.values += 1) % SLICE_VALUES === 0) yield;
  const copied = (one: unknown): Work<Json> => bareInParts(one, depth - 1, looked);
  if (Array.isArray(value)) {
    const list: Json[] = [];
    for (const one of value as readonly unknown[])
      list.push(typeof one === 'object' && one !== null ? yield* copied(one) : (one as Json));
    return list;
  }
  const copy = Object.create(null) as Record<string, Json>;
  for (const [name, one] of Object.entries(value))
    copy[name] = typeof one === 'object' && one !== null ? yield* copied(one) : (one as Json);
  return copy;
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
