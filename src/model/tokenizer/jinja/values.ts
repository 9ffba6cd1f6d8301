import { SpelledNumber } from '../../../arguments/jsonNumbers.js';
import { PythonError, typeError } from './errors.js';
import { make, makeList, scan } from './meter.js';

/**
 * A value of Python's: None is null, an int a safe integer or a bigint beyond, a str a string, a list an array; all
 * others are objects.
 */
export type Value = null | boolean | number | bigint | string | Value[] | PythonObject;

/** Arguments by name. */
export type Named = ReadonlyMap<string, Value>;

export abstract class PythonObject {
  /** Python's name of its type. */
  abstract readonly typeName: string;
}

export class Float extends PythonObject {
  readonly typeName = 'float';
  constructor(readonly value: number) {
    super();
  }
}

/** A text that is escaped already; texts that are added to it are escaped. */
export class Markup extends PythonObject {
  readonly typeName = 'Markup';
  constructor(readonly text: string) {
    super();
  }
}

export class Tuple extends PythonObject {
  readonly typeName = 'tuple';
  constructor(readonly items: readonly Value[]) {
    super();
  }
}

/** A value that is not there. Printing it gives nothing, most of what else is done with it fails. */
export class Undefined extends PythonObject {
  readonly typeName = 'Undefined';
  constructor(
    readonly message: string,
    readonly kind: 'UndefinedError' | 'SecurityError' = 'UndefinedError',
  ) {
    super();
  }

  fail(): never {
    throw new PythonError(this.kind, this.message);
  }
}

export class Range extends PythonObject {
  readonly typeName = 'range';
  readonly length: number;
  constructor(
    readonly start: number,
    readonly stop: number,
    readonly step: number,
  ) {
    super();
    this.length = Math.max(0, Math.ceil((stop - start) / step));
  }

  at(index: number): number {
    return this.start + index * this.step;
  }
}

/** A function, a method or a type that can be called. */
export class Callable extends PythonObject {
  readonly typeName: string;
  constructor(
    readonly name: string,
    readonly call: (args: readonly Value[], named: Named) => Value,
    typeName = 'function',
  ) {
    super();
    this.typeName = typeName;
  }
}

/** A macro, or the body of a call block. */
export class Macro extends PythonObject {
  readonly typeName = 'Macro';
  constructor(
    readonly name: string | null,
    readonly attributes: Readonly<Record<string, Value>>,
    readonly call: (args: readonly Value[], named: Named) => string,
  ) {
    super();
  }
}

/** A generator or another iterator, which can be gone through once. */
export class Iterating extends PythonObject {
  constructor(
    readonly iterator: Iterator<Value>,
    readonly typeName = 'generator',
  ) {
    super();
  }
}

/** The result of a dict's `keys`, `values` and `items`. */
export class View extends PythonObject {
  readonly typeName: string;
  constructor(
    readonly of: Dict,
    readonly part: 'keys' | 'values' | 'items',
  ) {
    super();
    this.typeName = `dict_${part}`;
  }

  *values(): Generator<Value, undefined> {
    for (const [key, value] of this.of.entries())
      yield this.part === 'keys' ? key : this.part === 'values' ? value : new Tuple([key, value]);
    return undefined;
  }
}

/** A namespace, whose members a template may set. */
export class Namespace extends PythonObject {
  readonly typeName = 'TemplateNamespace';
  constructor(readonly members: Dict) {
    super();
  }
}

/** An object of jinja2's whose attributes are computed when they are asked for: `loop`, a cycler. */
export abstract class Attributed extends PythonObject {
  /** @returns undefined where it has none of that name */
  abstract attribute(name: string): Value | undefined;
}

const UNDEFINED_KEY = {};
/** Longer keys take time to be compared. */
const SHORT_KEY = 1024;
type Key = string | number | bigint | null | object;

/** A dict: its keys are whatever can be hashed, in the order in which they came. */
export class Dict extends PythonObject {
  readonly typeName = 'dict';
  readonly #entries = new Map<Key, Value>();
  /** Keys that are written otherwise than they are found: True, 1.0, Markup, tuples. */
  #written: Map<Key, Value> | undefined;
  #tuples: Map<string, Tuple> | undefined;

  static of(entries: Iterable<readonly [Value, Value]>): Dict {
    const dict = new Dict();
    for (const [key, value] of entries) dict.set(key, value);
    return dict;
  }

  get size(): number {
    return this.#entries.size;
  }

  /** @returns undefined where there is no such key @throws PythonError for what cannot be hashed */
  get(key: Value): Value | undefined {
    return this.#entries.get(this.#found(key));
  }

  has(key: Value): boolean {
    return this.#entries.has(this.#found(key));
  }

  set(key: Value, value: Value): void {
    const found = this.#found(key);
    if (found !== key && !this.#entries.has(found)) (this.#written ??= new Map()).set(found, key);
    this.#entries.set(found, value);
  }

  *entries(): Generator<[Value, Value], undefined> {
    for (const [key, value] of this.#entries) yield [this.#original(key), value];
    return undefined;
  }

  keys(): Value[] {
    make(this.size);
    return [...this.#entries.keys()].map((key) => this.#original(key));
  }

  #original(key: Key): Value {
    return valueOr(this.#written?.get(key), () => key as Value);
  }

  #found(key: Value): Key {
    if (typeof key === 'string' && key.length > SHORT_KEY) scan(key.length);
    if (typeof key === 'string' || typeof key === 'number' || typeof key === 'bigint' || key === null) return key;
    if (typeof key === 'boolean') return key ? 1 : 0;
    if (key instanceof Markup) return this.#found(key.text);
    if (key instanceof Float) {
      if (Number.isNaN(key.value)) return key;
      return Number.isInteger(key.value) && !Number.isSafeInteger(key.value) ? BigInt(key.value) : key.value + 0;
    }
    if (key instanceof Undefined) return UNDEFINED_KEY;
    if (key instanceof Tuple) {
      const spelling = hashOf(key);
      const known = this.#tuples?.get(spelling);
      if (known !== undefined) return known;
      (this.#tuples ??= new Map()).set(spelling, key);
      return key;
    }
    if (Array.isArray(key) || key instanceof Dict || key instanceof View)
      throw typeError(`unhashable type: '${typeName(key)}'`);
    return key;
  }
}

/** A text that is the same for what Python hashes and compares as equal. */
function hashOf(value: Value): string {
  if (value instanceof Tuple) {
    makeList(16 * value.items.length);
    return `(${value.items.map(hashOf).join(',')})`;
  }
  if (value instanceof Markup || typeof value === 'string') {
    const text = value instanceof Markup ? value.text : value;
    scan(text.length);
    make(text.length);
    return JSON.stringify(text);
  }
  if (typeof value === 'boolean') return value ? '1' : '0';
  if (value instanceof Float)
    return Number.isInteger(value.value) ? BigInt(value.value).toString() : String(value.value);
  if (typeof value === 'number' || typeof value === 'bigint' || value === null) return String(value);
  if (value instanceof Undefined) return 'undefined';
  if (Array.isArray(value) || value instanceof Dict || value instanceof View)
    throw typeError(`unhashable type: '${typeName(value)}'`);
  throw typeError(`found a tuple with ${typeName(value)} as a key`);
}

export function typeName(value: Value): string {
  if (value === null) return 'NoneType';
  if (typeof value === 'string') return 'str';
  if (typeof value === 'boolean') return 'bool';
  if (typeof value === 'number' || typeof value === 'bigint') return 'int';
  return Array.isArray(value) ? 'list' : value.typeName;
}

/** A value, or what stands for one that is not there; None is there. */
export function valueOr(value: Value | undefined, otherwise: () => Value): Value {
  return value === undefined ? otherwise() : value;
}

/** The text of a str, escaped or not; undefined for what is none. */
export function textOf(value: Value): string | undefined {
  return typeof value === 'string' ? value : value instanceof Markup ? value.text : undefined;
}

/** An int as it is held: a bigint only beyond what a number can be. */
export function intOf(value: bigint): number | bigint {
  return value >= BigInt(Number.MIN_SAFE_INTEGER) && value <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(value) : value;
}

/** Bits of the longest whole number; Python prints no longer ones. */
const MOST_BITS = 14_300n;
const LARGEST = 1n << MOST_BITS;

/** @throws PythonError beyond what Python can print */
export function checkedInt(value: bigint): number | bigint {
  if (value >= LARGEST || value <= -LARGEST) throw new PythonError('OverflowError', 'int too large for a template');
  return intOf(value);
}

/** A value of plain JSON data as Python reads it; a number with a spelling is what that says. */
export function fromJson(value: unknown): Value {
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return value;
    case 'number':
      return Number.isSafeInteger(value)
        ? value + 0
        : Number.isInteger(value) && Math.abs(value) < 1e21
          ? intOf(BigInt(value))
          : new Float(value);
    case 'bigint':
      return intOf(value);
    case 'object': {
      if (value === null) return null;
      if (Array.isArray(value)) return value.map(fromJson);
      if (value instanceof SpelledNumber) return spelled(value.spelling);
      // As threads are given it.
      if (value instanceof String) return spelled(value.valueOf());
      const dict = new Dict();
      for (const [name, member] of Object.entries(value)) if (member !== undefined) dict.set(name, fromJson(member));
      return dict;
    }
    default:
      return null;
  }
}

function spelled(spelling: string): Value {
  if (/[.eE]/.test(spelling)) return new Float(Number(spelling));
  return checkedInt(BigInt(spelling));
}
