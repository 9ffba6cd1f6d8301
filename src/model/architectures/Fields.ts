import { isObject } from '../../arguments/isObject.js';
import { ModelFileError } from '../../errors/ModelFileError.js';
import { foundInFile } from '../../arguments/found.js';

/** Inclusive bounds of a number. Nothing that a file says is used before it is inside them. */
export interface Bounds {
  readonly min: number;
  readonly max: number;
}

/** The bounds of a model's sizes. Generous for real models, small enough that no table built from them is huge. */
export const LIMITS = {
  layers: { min: 1, max: 1000 },
  hidden: { min: 1, max: 2 ** 18 },
  feedForward: { min: 1, max: 2 ** 22 },
  vocabulary: { min: 1, max: 2 ** 24 },
  context: { min: 1, max: 2 ** 24 },
  heads: { min: 1, max: 1024 },
  headDim: { min: 1, max: 512 },
  /** Elements of a row that latent attention keeps. */
  latent: { min: 1, max: 1024 },
  experts: { min: 1, max: 512 },
  window: { min: 1, max: 2 ** 24 },
  epsilon: { min: 0, max: 1 },
  /** Bases of rotary frequencies. */
  theta: { min: 1e-3, max: 1e15 },
  /** Soft caps on scores and logits; 0 means none. */
  softCap: { min: 0, max: 1e6 },
  /** Factors of rotary scalings. */
  factor: { min: 1e-6, max: 1e6 },
} as const satisfies Record<string, Bounds>;

/**
 * Typed, bounded access to the fields of a configuration that nobody vouches for: a JSON object or GGUF metadata.
 * A field that is absent takes the default; without one that is an error. JSON's null is a value of its own (Python's
 * None).
 */
export class Fields {
  private constructor(
    /** For messages: the file, and the path to these fields inside it. */
    readonly file: string,
    private readonly where: string,
    private readonly lookUp: (key: string) => unknown,
    /** For messages: what the file calls a field. */
    private readonly nameOf: (key: string) => string = (key) => key,
  ) {}

  /**
   * The fields of a parsed JSON object. Only its own properties count: `__proto__` and `constructor` find nothing
   * inherited.
   */
  static ofObject(file: string, value: unknown, where = ''): Fields {
    if (!isObject(value) || ArrayBuffer.isView(value)) {
      throw new ModelFileError(file, where || 'configuration', foundInFile(value), 'a JSON object');
    }
    return new Fields(file, where && `${where}.`, (key) => (Object.hasOwn(value, key) ? value[key] : undefined));
  }

  /** The metadata of a GGUF file whose keys start with `prefix`. */
  static ofMetadata(file: string, metadata: ReadonlyMap<string, unknown>, prefix: string): Fields {
    // The numbers of xIELU are the only ones of a model that the format has without the architecture before them.
    return new Fields(file, prefix, (key) => metadata.get(key.startsWith('xielu.') ? key : prefix + key));
  }

  /** These fields with some replaced; undefined removes one. */
  with(replaced: Readonly<Record<string, unknown>>): Fields {
    return new Fields(
      this.file,
      this.where,
      (key) => (Object.hasOwn(replaced, key) ? replaced[key] : this.lookUp(key)),
      this.nameOf,
    );
  }

  /** These fields, some of which are read under other names than the file's, by these. */
  renamed(names: Readonly<Record<string, string>>): Fields {
    const own = (key: string): string => (Object.hasOwn(names, key) ? (names[key] ?? key) : key);
    return new Fields(
      this.file,
      this.where,
      (key) => this.lookUp(own(key)),
      (key) => this.nameOf(own(key)),
    );
  }

  /** These fields with others where they say nothing, or null. */
  withDefaults(defaults: Readonly<Record<string, unknown>>): Fields {
    return this.with(
      Object.fromEntries(Object.entries(defaults).map(([key, value]) => [key, this.lookUp(key) ?? value])),
    );
  }

  /** These fields; those that are asked for, and that the file has, are added to `read`. */
  noting(read: Set<string>): Fields {
    const lookUp = (key: string): unknown => {
      const value = this.lookUp(key);
      if (value !== undefined) read.add(key);
      return value;
    };
    return new Fields(this.file, this.where, lookUp, this.nameOf);
  }

  has(key: string): boolean {
    return this.lookUp(key) !== undefined;
  }

  /** As it stands, unchecked; undefined if absent. */
  raw(key: string): unknown {
    return this.lookUp(key);
  }

  refuse(key: string, expected: string, found: unknown = this.lookUp(key)): never {
    throw new ModelFileError(this.file, `${this.where}${this.nameOf(key)}`, foundInFile(found), expected);
  }

  integer(key: string, bounds: Bounds, fallback?: number): number {
    return this.checkedNumber(key, bounds, Number.isSafeInteger, 'an integer', fallback);
  }

  number(key: string, bounds: Bounds, fallback?: number): number {
    return this.checkedNumber(key, bounds, Number.isFinite, 'a number', fallback);
  }

  /** An integer, or null where the file says null, or the fallback where it says nothing. */
  integerOrNull(key: string, bounds: Bounds, fallback: number | null): number | null {
    const value = this.lookUp(key);
    return value === null || (value === undefined && fallback === null)
      ? null
      : this.integer(key, bounds, fallback ?? undefined);
  }

  numberOrNull(key: string, bounds: Bounds): number | null {
    const value = this.lookUp(key);
    return value === null || value === undefined ? null : this.number(key, bounds);
  }

  /** null counts as false, as it does in Python. */
  boolean(key: string, fallback: boolean): boolean {
    const value = this.lookUp(key);
    if (value === undefined) return fallback;
    if (value === null) return false;
    return typeof value === 'boolean' ? value : this.refuse(key, 'true or false');
  }

  string(key: string, fallback?: string): string {
    const value = this.lookUp(key) ?? fallback;
    return typeof value === 'string' ? value : this.refuse(key, 'a text');
  }

  /** A nested object; undefined if absent or null. */
  child(key: string): Fields | undefined {
    const value = this.lookUp(key);
    return value === undefined || value === null
      ? undefined
      : Fields.ofObject(this.file, value, `${this.where}${this.nameOf(key)}`);
  }

  /** An array of exactly `length` numbers. */
  numbers(key: string, length: number, bounds: Bounds): readonly number[] {
    const given = this.lookUp(key);
    const value = ArrayBuffer.isView(given) ? Array.from(given as unknown as ArrayLike<unknown>) : given;
    if (!Array.isArray(value) || value.length !== length) return this.refuse(key, `an array of ${length} numbers`);
    return value.map((entry: unknown, index) =>
      typeof entry === 'number' && entry >= bounds.min && entry <= bounds.max
        ? entry
        : this.refuse(`${key}[${index}]`, `a number from ${bounds.min} to ${bounds.max}`, entry),
    );
  }

  /**
   * GGUF may state a size once, or once a layer; the layers must agree, for a decoder here has one shape for all of
   * them.
   */
  uniformInteger(key: string, bounds: Bounds, fallback?: number): number {
    const value = this.lookUp(key);
    if (!Array.isArray(value) && !ArrayBuffer.isView(value)) return this.integer(key, bounds, fallback);
    const entries = Array.from(value as ArrayLike<unknown>);
    const first = entries[0];
    const uniform = entries.every((entry) => entry === first);
    return uniform &&
      typeof first === 'number' &&
      Number.isSafeInteger(first) &&
      first >= bounds.min &&
      first <= bounds.max
      ? first
      : this.refuse(key, `the same integer from ${bounds.min} to ${bounds.max} for every layer`);
  }

  /** A size for each of so many layers, which GGUF may state once. */
  integers(key: string, count: number, bounds: Bounds, fallback?: number): readonly number[] {
    const value = this.lookUp(key);
    if (!Array.isArray(value) && !ArrayBuffer.isView(value))
      return Array<number>(count).fill(this.integer(key, bounds, fallback));
    const entries: unknown[] = Array.from(value as ArrayLike<unknown>);
    if (entries.length < count) return this.refuse(key, `an integer, or one for each of ${count} layers`);
    return entries
      .slice(0, count)
      .map((entry, layer) =>
        typeof entry === 'number' && Number.isSafeInteger(entry) && entry >= bounds.min && entry <= bounds.max
          ? entry
          : this.refuse(`${key}[${layer}]`, `an integer from ${bounds.min} to ${bounds.max}`, entry),
      );
  }

  private checkedNumber(
    key: string,
    bounds: Bounds,
    accepts: (value: unknown) => boolean,
    kind: string,
    fallback?: number,
  ): number {
    const value = this.lookUp(key) === undefined ? fallback : this.lookUp(key);
    return typeof value === 'number' && accepts(value) && value >= bounds.min && value <= bounds.max
      ? value
      : this.refuse(key, `${kind} from ${bounds.min} to ${bounds.max}`, value);
  }
}
