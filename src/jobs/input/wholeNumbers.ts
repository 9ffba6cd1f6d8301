import { isObject } from '../../arguments/isObject.js';

/** A type of DuckDB's, with the types that stand in it: of lists and arrays, maps, structures and unions. */
export interface DuckDbType {
  toString(): string;
  readonly valueType?: DuckDbType;
  /** The items that each array of the type has. */
  readonly length?: number;
  readonly keyType?: DuckDbType;
  readonly entryNames?: readonly string[];
  readonly entryTypes?: readonly DuckDbType[];
  readonly memberTags?: readonly string[];
  readonly memberTypes?: readonly DuckDbType[];
}

/** Types of whole numbers that come as text, as they may be larger than a number holds exactly. */
const WIDE = new Set(['BIGINT', 'UBIGINT', 'HUGEINT', 'UHUGEINT']);

type Reader = (value: unknown) => unknown;

/**
 * Makes numbers of whole numbers that came as text, as far as a number holds them exactly, however deep in a value they
 * stand; undefined for a type without any.
 */
export function wholeNumbers(type: DuckDbType): Reader | undefined {
  if (WIDE.has(type.toString())) return numberOf;
  const { valueType, keyType, entryNames = [], entryTypes = [], memberTags = [], memberTypes = [] } = type;
  if (keyType && valueType) {
    const entry = membersOf([
      ['key', keyType],
      ['value', valueType],
    ]);
    return entry && listOf(entry);
  }
  if (valueType) {
    const item = wholeNumbers(valueType);
    return item && listOf(item);
  }
  if (entryTypes.length > 0) return membersOf(entryTypes.map((each, at) => [entryNames[at] ?? '', each]));
  const members = new Map(memberTypes.map((each, at) => [memberTags[at], wholeNumbers(each)]));
  if (![...members.values()].some((reader) => reader !== undefined)) return undefined;
  return (value) => {
    if (!isObject(value)) return value;
    const reader = members.get(String(value['tag']));
    return reader ? { ...value, value: reader(value['value']) } : value;
  };
}

function numberOf(value: unknown): unknown {
  return typeof value === 'string' && Number.isSafeInteger(Number(value)) ? Number(value) : value;
}

function listOf(item: Reader): Reader {
  return (value) => (Array.isArray(value) ? value.map(item) : value);
}

function membersOf(types: readonly (readonly [name: string, type: DuckDbType])[]): Reader | undefined {
  const readers = new Map(types.map(([name, type]) => [name, wholeNumbers(type)]));
  if (![...readers.values()].some((reader) => reader !== undefined)) return undefined;
  return (value) =>
    isObject(value)
      ? Object.fromEntries(Object.entries(value).map(([name, member]) => [name, readers.get(name)?.(member) ?? member]))
      : value;
}
