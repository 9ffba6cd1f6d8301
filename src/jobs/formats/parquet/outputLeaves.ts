import type { SchemaElement, SchemaTree } from 'hyparquet';
import { JobFileError } from '../../../errors/JobFileError.js';
import { cell } from '../cell.js';
import { kindsOf, type ColumnKind } from '../columnKinds.js';
import { resultColumns } from '../resultColumns.js';
import type { FinishedRow, WriteOptions } from '../RowFormat.js';
import { checkColumns } from '../tableRow.js';
import { cellsOf } from './cells.js';
import { isUnsigned, nanosOf } from './readable.js';
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
  /** Whether values as they are stored are in the order of what they stand for, so that the least and the most of a group say something. */
  readonly ordered: boolean;
  readonly values: (rows: readonly FinishedRow[]) => PageValues;
}

const ROOT = 'schema';
const STORED: Readonly<Record<ColumnKind, Omit<SchemaElement, 'name'>>> = {
  text: { type: 'BYTE_ARRAY', converted_type: 'UTF8', logical_type: { type: 'STRING' } },
  integer: { type: 'INT64' },
  number: { type: 'DOUBLE' },
  boolean: { type: 'BOOLEAN' },
  count: { type: 'INT32' },
};

/**
 * The leaves of a table of results, and its schema: the columns of a Parquet input as they are, those of other inputs by what is in them.
 * @param first rows that say what is in columns of which nothing else is known
 * @throws UsageError for two columns of one name
 */
export function outputLeaves(first: readonly FinishedRow[], options: WriteOptions): { leaves: readonly OutputLeaf[]; schema: SchemaElement[] } {
  const table = options.table();
  const names = table?.columns ?? [...new Set(first.flatMap(({ carry }) => Object.keys(carry ?? {})))];
  const results = resultColumns(names, options).map(({ name, type, value }) => flatLeaf(name, type, ({ result }) => value(result)));
  const typed = table?.typed;
  const carried = typed === undefined ? carriedLeaves(names, table?.kinds ?? kindsOf(first.map(({ carry }) => carry)), options.name) : typedLeaves(typed, options.name);
  const schema = [
    { name: ROOT, num_children: names.length + results.length },
    ...(typed === undefined ? carried.map(elementOf) : typed.flatMap(({ tree }) => elementsOf(tree))), ...results.map(elementOf),
  ];
  return { leaves: [...carried, ...results], schema };
}

/** About how many bytes a row takes until it is written. */
export function bytesOfRow({ result, carry = {} }: FinishedRow): number {
  // A value, and its cells, are about as long as its text.
  let bytes = 64 + (result.value === undefined ? 2 : 6) * (result.text?.length ?? 0) + 16 * (result.tokens?.length ?? 0) + answerBytes(result);
  const cells = cellsOf(carry);
  const add = (value: unknown): void => void (bytes += value instanceof Uint8Array ? 64 + value.length : typeof value === 'string' ? 2 * value.length : 16);
  for (let leaf = 0; cells !== undefined && cells.batch.forEach(cells.row, leaf, add) > 0; leaf += 1);
  for (const value of Object.values(carry)) add(typeof value === 'object' ? cell(value) : value);
  return bytes;
}

/** Of what is no text. */
function answerBytes({ probabilities, scores, embedding }: FinishedRow['result']): number {
  return 40 * (Object.keys(probabilities ?? {}).length + (scores?.length ?? 0)) + (typeof embedding === 'string' ? 2 : 24) * (embedding?.length ?? 0);
}

function elementOf({ path }: OutputLeaf): SchemaElement {
  const last = path.at(-1);
  if (last === undefined) throw new Error('a leaf has no element');
  return last;
}

function elementsOf({ element, children }: SchemaTree): SchemaElement[] {
  return [modern(element), ...children.flatMap(elementsOf)];
}

/** Moments in the old form of 96 bits, which is read but no longer written, become nanoseconds. Widths of numbers are said in the old way: the new one is written wrongly by the library. */
function modern(element: SchemaElement): SchemaElement {
  const { logical_type: kind, ...others } = element;
  if (element.type === 'INT96') return { ...others, type: 'INT64', logical_type: { type: 'TIMESTAMP', isAdjustedToUTC: false, unit: 'NANOS' } };
  if (kind?.type !== 'INTEGER') return element;
  return { ...others, converted_type: `${kind.isSigned ? '' : 'U'}INT_${kind.bitWidth}` as NonNullable<SchemaElement['converted_type']> };
}

function typedLeaves(columns: readonly Column[], output: string): readonly OutputLeaf[] {
  return columns.flatMap(({ leaves }) => leaves).map((leaf, at): OutputLeaf => {
    const { element, definition, repetition, path } = leaf;
    const { type, type_length: length, name } = modern(element);
    return {
      name: nameOf(leaf), path: path.map((node) => modern(node.element)), ordered: isOrdered(leaf),
      stored: { name, ...(type && { type }), ...(length !== undefined && { type_length: length }), repetition_type: 'OPTIONAL', ...(isText(element) && { converted_type: 'UTF8' }) },
      values: (rows) => {
        const values: unknown[] = [];
        const definitionLevels: number[] = [];
        const repetitionLevels: number[] = [];
        for (const { carry } of rows) {
          const cells = cellsOf(carry);
          if (cells === undefined) {
            throw new JobFileError(output, 'found a row without the columns of the input, expected those of each row');
          }
          cells.batch.forEach(cells.row, at, (value, level, list) => {
            values.push(element.type === 'INT96' && typeof value === 'bigint' ? nanosOf(value) : value);
            if (definition > 0) definitionLevels.push(level);
            if (repetition > 0) repetitionLevels.push(list);
          });
        }
        return { values, definitionLevels, repetitionLevels, maxDefinitionLevel: definition };
      },
    };
  });
}

function isText({ converted_type: old }: SchemaElement): boolean {
  return old === 'UTF8';
}

function isOrdered({ element }: Leaf): boolean {
  const { type, converted_type: old, logical_type: kind } = element;
  if (type === 'BYTE_ARRAY') return isText(element);
  return type !== 'FIXED_LEN_BYTE_ARRAY' && type !== 'INT96' && old !== 'DECIMAL' && kind?.type !== 'DECIMAL' && !isUnsigned(element);
}

function carriedLeaves(names: readonly string[], kinds: ReadonlyMap<string, ColumnKind>, output: string): readonly OutputLeaf[] {
  const known = new Set(names);
  return names.map((name, at) =>
    flatLeaf(name, kinds.get(name) ?? 'text', ({ carry = {} }) => {
      if (at === 0) checkColumns(output, known, carry);
      return carry[name];
    }));
}

function flatLeaf(name: string, kind: ColumnKind, valueOf: (row: FinishedRow) => unknown): OutputLeaf {
  const element: SchemaElement = { name, ...STORED[kind], repetition_type: 'OPTIONAL' };
  return {
    name, stored: element, path: [{ name: ROOT }, element], ordered: true,
    values: (rows) => {
      const values = rows.map((row) => stored(valueOf(row), kind));
      return { values, definitionLevels: values.map((value) => (value === null ? 0 : 1)), repetitionLevels: [], maxDefinitionLevel: 1 };
    },
  };
}

/** @throws Error for a value of another kind */
function stored(value: unknown, kind: ColumnKind): unknown {
  if (value === undefined || value === null) return null;
  if (kind === 'text') return cell(value);
  if (kind === 'integer' && typeof value === 'bigint' && BigInt.asIntN(64, value) === value) return value;
  const fits = kind === 'boolean' ? typeof value === 'boolean' : typeof value === 'number' && (kind === 'number' || Number.isSafeInteger(value));
  if (!fits) throw new Error(`found ${cell(value) ?? ''}, expected values as in the rows before`);
  return kind === 'integer' ? BigInt(value as number) : value;
}
