import type { SchemaElement, SchemaTree } from 'hyparquet';
import { JobFileError } from '../../../errors/JobFileError.js';
import { cell } from '../columnText.js';
import { type FlatKind, flatKind, isVector, itemKindOf } from '../Table.js';
import type { FinishedRow, WriteOptions } from '../RowFormat.js';
import { answerColumns, carriedColumns, carriedNames, storedValue, type TableColumn } from '../tableColumns.js';
import { cellsOf } from './cells.js';
import { isUnsigned, isWrittenAsNanos, nanosOf } from './readable.js';
import { nameOf, type Column, type Leaf } from './schema.js';

/** Values of a leaf as they are stored, one a slot, with what says where rows and lists begin. */
interface PageValues {
  readonly values: unknown[];
  readonly definitionLevels: number[];
  readonly repetitionLevels: number[];
  readonly maxDefinitionLevel: number;
}

/** A leaf of the file that is written. */
export interface OutputLeaf {
  readonly name: string;
  /** How values are stored, without what they stand for: they are handed over as they were stored. */
  readonly stored: SchemaElement;
  readonly path: SchemaElement[];
  /**
   * True where values as they are stored are in the order of what they stand for, so that the least and the most of a
   * group say something.
   */
  readonly ordered: boolean;
  readonly values: (rows: readonly FinishedRow[]) => PageValues;
}

const ROOT = 'schema';
/** The stored form of each kind: of vectors and maps, their parts. */
const STORED: Readonly<Record<FlatKind, Omit<SchemaElement, 'name'>>> = {
  text: { type: 'BYTE_ARRAY', converted_type: 'UTF8', logical_type: { type: 'STRING' } },
  integer: { type: 'INT64' },
  number: { type: 'DOUBLE' },
  boolean: { type: 'BOOLEAN' },
  count: { type: 'INT32' },
  vector: { type: 'FLOAT' },
  vector16: { type: 'FIXED_LEN_BYTE_ARRAY', type_length: 2, logical_type: { type: 'FLOAT16' } },
  vector8: {
    type: 'INT32',
    converted_type: 'INT_8',
    logical_type: { type: 'INTEGER', bitWidth: 8, isSigned: true },
  },
  bytes: {
    type: 'INT32',
    converted_type: 'UINT_8',
    logical_type: { type: 'INTEGER', bitWidth: 8, isSigned: false },
  },
  moment: {
    type: 'INT64',
    converted_type: 'TIMESTAMP_MILLIS',
    logical_type: { type: 'TIMESTAMP', isAdjustedToUTC: true, unit: 'MILLIS' },
  },
  map: { type: 'DOUBLE' },
};

/**
 * The leaves of a table of results, and its schema: the columns of a Parquet input as they are, those of other inputs
 * by what is in them.
 * @param first rows that say what is in columns of which nothing else is known
 * @throws UsageError for two columns of one name
 */
export function outputLeaves(
  first: readonly FinishedRow[],
  options: WriteOptions,
): { leaves: readonly OutputLeaf[]; schema: SchemaElement[] } {
  const names = carriedNames(first, options);
  const results = answerColumns(names, options).map(leavesOf);
  const typed = options.table()?.typed;
  const carried =
    typed === undefined ? carriedColumns(names, first, options).map(leavesOf) : [typedLeaves(typed, options.name)];
  const schema = [
    { name: ROOT, num_children: names.length + results.length },
    ...(typed === undefined ? carried.flatMap(ownElements) : typed.flatMap(({ tree }) => elementsOf(tree))),
    ...results.flatMap(ownElements),
  ];
  return { leaves: [...carried, ...results].flat(), schema };
}

/** About how many bytes a row takes until it is written. */
export function bytesOfRow({ result, carry = {} }: FinishedRow): number {
  // A value, and its cells, are about as long as its text.
  let bytes =
    64 +
    (result.value === undefined ? 2 : 6) * (result.text?.length ?? 0) +
    16 * (result.tokens?.length ?? 0) +
    answerBytes(result);
  const cells = cellsOf(carry);
  const add = (value: unknown): void =>
    void (bytes += value instanceof Uint8Array ? 64 + value.length : typeof value === 'string' ? 2 * value.length : 16);
  for (let leaf = 0; cells !== undefined && cells.batch.forEach(cells.row, leaf, add) > 0; leaf += 1);
  for (const value of Object.values(carry)) add(typeof value === 'object' ? cell(value) : value);
  return bytes;
}

/** Counts the bytes of what is no text. */
function answerBytes({ probabilities, scores, embedding }: FinishedRow['result']): number {
  return (
    40 * (Object.keys(probabilities ?? {}).length + (scores?.length ?? 0)) +
    (typeof embedding === 'string' ? 2 : 24) * (embedding?.length ?? 0)
  );
}

/** Gives a column's elements: what its leaves have in common once. */
function ownElements(leaves: readonly OutputLeaf[]): SchemaElement[] {
  return [...new Set(leaves.flatMap(({ path }) => path.slice(1)))];
}

function elementsOf({ element, children }: SchemaTree): SchemaElement[] {
  return [modern(element), ...children.flatMap(elementsOf)];
}

/**
 * Moments in the old form of 96 bits, which is read but no longer written, become nanoseconds. Widths of numbers are
 * said in the old way: the new one is written wrongly by the library.
 */
function modern(element: SchemaElement): SchemaElement {
  const { logical_type: kind, ...others } = element;
  if (element.type === 'INT96')
    return { ...others, type: 'INT64', logical_type: { type: 'TIMESTAMP', isAdjustedToUTC: false, unit: 'NANOS' } };
  if (kind?.type !== 'INTEGER') return element;
  return {
    ...others,
    converted_type: `${kind.isSigned ? '' : 'U'}INT_${kind.bitWidth}` as NonNullable<SchemaElement['converted_type']>,
  };
}

function typedLeaves(columns: readonly Column[], output: string): readonly OutputLeaf[] {
  return columns
    .flatMap(({ leaves }) => leaves)
    .map((leaf, at): OutputLeaf => {
      const { element, definition, repetition, path } = leaf;
      const { type, type_length: length, name } = modern(element);
      const stored: SchemaElement = {
        name,
        ...(type && { type }),
        ...(length !== undefined && { type_length: length }),
        repetition_type: 'OPTIONAL',
        ...(isText(element) && { converted_type: 'UTF8' }),
      };
      return {
        name: nameOf(leaf),
        path: path.map((node) => modern(node.element)),
        ordered: isOrdered(leaf),
        stored,
        values: (rows) => {
          const values: unknown[] = [];
          const definitionLevels: number[] = [];
          const repetitionLevels: number[] = [];
          for (const { carry } of rows) {
            const cells = cellsOf(carry);
            if (cells === undefined) {
              throw new JobFileError(
                output,
                'found a row without the columns of the input, expected those of each row',
              );
            }
            cells.batch.forEach(cells.row, at, (value, level, list) => {
              // A row that has been refused has what could not be read, or written, left out.
              const moment = element.type === 'INT96' && typeof value === 'bigint';
              const there = !moment || isWrittenAsNanos(value);
              const written = moment && there ? nanosOf(value) : there ? value : null;
              values.push(definition === 0 && written === null ? emptyOf(stored) : written);
              if (definition > 0) definitionLevels.push(there ? level : Math.min(level, definition - 1));
              if (repetition > 0) repetitionLevels.push(list);
            });
          }
          return { values, definitionLevels, repetitionLevels, maxDefinitionLevel: definition };
        },
      };
    });
}

/** Gives the stand-in for a value of a column that needs one. */
function emptyOf({ type, type_length: length = 0 }: SchemaElement): unknown {
  if (type === 'INT64' || type === 'INT96') return 0n;
  if (type === 'BOOLEAN') return false;
  if (type === 'BYTE_ARRAY') return new Uint8Array();
  return type === 'FIXED_LEN_BYTE_ARRAY' ? new Uint8Array(length) : 0;
}

function isText({ converted_type: old }: SchemaElement): boolean {
  return old === 'UTF8';
}

function isOrdered({ element }: Leaf): boolean {
  const { type, converted_type: old, logical_type: kind } = element;
  if (type === 'BYTE_ARRAY') return isText(element);
  return (
    type !== 'FIXED_LEN_BYTE_ARRAY' &&
    type !== 'INT96' &&
    old !== 'DECIMAL' &&
    kind?.type !== 'DECIMAL' &&
    !isUnsigned(element)
  );
}

function leavesOf(column: TableColumn): readonly OutputLeaf[] {
  if (column.kind === 'map') return mapLeaves(column);
  return [isVector(column.kind) || itemKindOf(column.kind) ? listLeaf(column) : flatLeaf(column)];
}

function flatLeaf({ name, kind, value }: TableColumn): OutputLeaf {
  const element: SchemaElement = { name, ...STORED[flatKind(kind)], repetition_type: 'OPTIONAL' };
  return {
    name,
    stored: kind === 'moment' ? { name, type: 'INT64', repetition_type: 'OPTIONAL' } : element,
    path: [{ name: ROOT }, element],
    ordered: true,
    values: (rows) => {
      const values = rows.map((row) => storedValue(value(row), kind));
      return {
        values,
        definitionLevels: values.map((each) => (each === null ? 0 : 1)),
        repetitionLevels: [],
        maxDefinitionLevel: 1,
      };
    },
  };
}

/** A list, as the format's own rules say: optional, of a group that repeats, of an element. */
function listLeaf({ name, kind, value }: TableColumn): OutputLeaf {
  const list = groupOf(name, 'LIST');
  const element: SchemaElement = {
    name: 'element',
    ...STORED[itemKindOf(kind) ?? flatKind(kind)],
    repetition_type: 'OPTIONAL',
  };
  return {
    name,
    stored: element,
    path: [{ name: ROOT }, list, { name: 'list', num_children: 1, repetition_type: 'REPEATED' }, element],
    ordered: false,
    values: (rows) => repeated(rows, (row) => storedValue(value(row), kind) as readonly unknown[] | null, 3),
  };
}

/** A map, as the format's own rules say: optional, of a group that repeats, of a key that is there and a value. */
function mapLeaves({ name, kind, value }: TableColumn): readonly OutputLeaf[] {
  const map = groupOf(name, 'MAP');
  const pairs: SchemaElement = { name: 'key_value', num_children: 2, repetition_type: 'REPEATED' };
  const key: SchemaElement = { name: 'key', ...STORED.text, repetition_type: 'REQUIRED' };
  const number: SchemaElement = { name: 'value', ...STORED.map, repetition_type: 'OPTIONAL' };
  const leaf = (stored: SchemaElement, of: 'keys' | 'values', definition: number): OutputLeaf => ({
    name: `${name}.${stored.name}`,
    stored,
    path: [{ name: ROOT }, map, pairs, stored],
    ordered: false,
    values: (rows) =>
      repeated(
        rows,
        (row) => {
          const stands = storedValue(value(row), kind) as ReadonlyMap<string, number> | null;
          return stands && [...stands[of]()];
        },
        definition,
      ),
  });
  return [leaf(key, 'keys', 2), leaf(number, 'values', 3)];
}

function groupOf(name: string, type: 'LIST' | 'MAP'): SchemaElement {
  return { name, num_children: 1, repetition_type: 'OPTIONAL', converted_type: type, logical_type: { type } };
}

/** Values of a group that repeats. @param definition of a value that is there; of one that is null it is one less */
function repeated(
  rows: readonly FinishedRow[],
  partsOf: (row: FinishedRow) => readonly unknown[] | null,
  definition: number,
): PageValues {
  const values: unknown[] = [];
  const definitionLevels: number[] = [];
  const repetitionLevels: number[] = [];
  const add = (part: unknown, level: number, repetition: number): void => {
    values.push(part);
    definitionLevels.push(level);
    repetitionLevels.push(repetition);
  };
  for (const row of rows) {
    const parts = partsOf(row);
    if (parts === null || parts.length === 0) add(null, parts === null ? 0 : 1, 0);
    else
      for (const [at, part] of parts.entries())
        add(part, part === null ? definition - 1 : definition, at === 0 ? 0 : 1);
  }
  return { values, definitionLevels, repetitionLevels, maxDefinitionLevel: definition };
}
