import type { Work } from '../../collections/drained.js';
import { tallied, type ValueTally } from './ValueTally.js';
import { wholeNumbers, type DuckDbType } from './wholeNumbers.js';

/** Makes JSON of a value as the package has it. */
export type Converter = (value: unknown, type: DuckDbType, converter: Converter) => unknown;

/** A column of a chunk, or what stands in values of one. Where members are missing, a value is made in one go. */
export interface DuckDbVector {
  readonly type: DuckDbType;
  readonly itemCount: number;
  getItem(row: number): unknown;
  /** The items of a list; null for none. Lists alone have it. */
  getItemVector?(row: number): DuckDbVector | null;
  /** The column of a member; structures alone have it. */
  entryVectorAt?(entry: number): DuckDbVector;
  isItemValid?(row: number): boolean;
  /** The column that maps, arrays and unions are made of. */
  readonly listVector?: DuckDbVector;
  readonly childData?: DuckDbVector & { slice?(from: number, count: number): DuckDbVector };
  readonly validity?: { itemValid(row: number): boolean };
  readonly structVector?: DuckDbVector;
}

type Parts = (vector: DuckDbVector, row: number, tally: ValueTally) => Work<unknown>;
/** Reads a value of a type: at once, or, of what others stand in, in parts. */
type Reader = { readonly whole: (vector: DuckDbVector, row: number) => unknown } | { readonly parts: Parts };

/** Reads values of columns of these types. */
export function valueReaders(types: readonly DuckDbType[], converter: Converter): readonly Reader[] {
  return types.map((type) => readerOf(type, converter));
}

/** The values of a row; undefined where they take more than so many bytes. Stops on its way through many. */
export function valuesOfRow(
  vectors: readonly (readonly [vector: DuckDbVector, reader: Reader])[],
  row: number,
  most: number,
): Work<readonly unknown[] | undefined> {
  return tallied(most, function* (tally) {
    const made: unknown[] = [];
    for (const [vector, reader] of vectors) {
      if ('whole' in reader) made.push(tally.whole(reader.whole(vector, row)));
      else made.push(yield* reader.parts(vector, row, tally));
      if (tally.due) yield;
    }
    return made;
  });
}

function* valueOf(reader: Reader, vector: DuckDbVector, row: number, tally: ValueTally): Work<unknown> {
  if (tally.due) yield;
  if ('whole' in reader) return tally.whole(reader.whole(vector, row));
  return yield* reader.parts(vector, row, tally);
}

function readerOf(type: DuckDbType, converter: Converter): Reader {
  const whole = (vector: DuckDbVector, row: number): unknown => {
    const value = converter(vector.getItem(row), type, converter);
    return numbers?.(value) ?? value;
  };
  const numbers = wholeNumbers(type);
  const parts = partsOf(type, converter, whole);
  return parts ? { parts } : { whole };
}

/** How values of a type are read in which others stand; undefined for any other type. */
function partsOf(
  type: DuckDbType,
  converter: Converter,
  whole: (vector: DuckDbVector, row: number) => unknown,
): Parts | undefined {
  const { valueType, keyType, entryNames = [], entryTypes = [], memberTags = [], memberTypes = [] } = type;
  const inOneGo: Parts = function* (vector, row, tally) {
    const value = whole(vector, row);
    if (tally.due) yield;
    return tally.whole(value);
  };
  const orWhole =
    (parts: (...given: Parameters<Parts>) => Work<unknown> | undefined): Parts =>
    (...given) =>
      parts(...given) ?? inOneGo(...given);
  if (keyType && valueType) {
    const entries = members(['key', 'value'], valueReaders([keyType, valueType], converter));
    return orWhole((vector, row, tally) => {
      const { listVector } = vector;
      return listVector?.getItemVector && listOf({ parts: entries }, listVector.getItemVector(row), tally);
    });
  }
  if (valueType) {
    const item = readerOf(valueType, converter);
    const { length = 0 } = type;
    return orWhole((vector, row, tally) => {
      if (vector.getItemVector) return listOf(item, vector.getItemVector(row), tally);
      const { childData, validity } = vector;
      if (!childData?.slice || !validity) return undefined;
      return listOf(item, validity.itemValid(row) ? childData.slice(row * length, length) : null, tally);
    });
  }
  if (entryTypes.length > 0) {
    const parts = members(entryNames, valueReaders(entryTypes, converter));
    return orWhole((vector, row, tally) =>
      vector.entryVectorAt && vector.isItemValid ? parts(vector, row, tally) : undefined,
    );
  }
  if (memberTypes.length === 0) return undefined;
  const readers = valueReaders(memberTypes, converter);
  return orWhole(({ structVector }, row, tally) => {
    const tag = structVector?.entryVectorAt?.(0).getItem(row);
    const at = typeof tag === 'number' ? tag : -1;
    const [vector, reader] = [structVector?.entryVectorAt?.(at + 1), readers[at]];
    return vector && reader ? tagged(memberTags[at] ?? '', reader, vector, row, tally) : undefined;
  });
}

function* listOf(item: Reader, vector: DuckDbVector | null, tally: ValueTally): Work<unknown> {
  if (vector === null) return tally.member(null);
  const made: unknown[] = tally.member([]);
  const { itemCount } = vector;
  tally.expect(itemCount);
  if ('whole' in item)
    for (let at = 0; at < itemCount; at += 1) {
      made.push(tally.whole(item.whole(vector, at)));
      if (tally.due) yield;
    }
  else
    for (let at = 0; at < itemCount; at += 1) {
      if (tally.due) yield;
      made.push(yield* item.parts(vector, at, tally));
    }
  return made;
}

function members(names: readonly string[], readers: readonly Reader[]): Parts {
  return function* (vector, row, tally) {
    if (vector.isItemValid?.(row) === false) return tally.member(null);
    const made: [string, unknown][] = tally.member([]);
    for (const [at, reader] of readers.entries()) {
      const entry = vector.entryVectorAt?.(at);
      if (entry) made.push([tally.name(names[at] ?? ''), yield* valueOf(reader, entry, row, tally)]);
    }
    return Object.fromEntries(made);
  };
}

function* tagged(tag: string, reader: Reader, vector: DuckDbVector, row: number, tally: ValueTally): Work<unknown> {
  tally.member({});
  tally.name('tag');
  tally.name('value');
  return { tag: tally.member(tag), value: yield* valueOf(reader, vector, row, tally) };
}
