import { JobFileError } from '../../../errors/JobFileError.js';
import { PARQUET_LIMITS } from '../../../model/files/limits.js';
import type { RowErrorCode } from '../../../errors/RowError.js';
import { setOwn } from '../../../collections/setOwn.js';
import { Turns } from '../../../collections/Turns.js';
import type { RowInput } from '../../../Row.js';
import type { ReadOptions, RowSource } from '../RowFormat.js';
import { fieldsOfTable, takenColumns, tableRow } from '../tableRow.js';
import { Batch, withCells } from './cells.js';
import { type HeldPages, LeafReader, type Slots } from './LeafReader.js';
import { ParquetFile, parquetErrors } from './ParquetFile.js';
import { isWrittenAsNanos, readableValues, withLongTexts } from './readable.js';
import { nameOf, type Column, type Leaf } from './schema.js';

/** Rows, and values, that are made at a time. */
const BATCH_ROWS = 1024;
const BATCH_VALUES = 2 ** 17;

/** How many rows a file has, as it says at its end. @throws JobFileError */
export async function countParquet(source: RowSource): Promise<number> {
  await using file = await opened(source);
  return file.rows;
}

/** The rows of a file, row group by row group, page by page. @throws JobFileError */
export async function* readParquet(source: RowSource, options: ReadOptions): AsyncGenerator<RowInput, void, undefined> {
  await using file = await opened(source);
  const names = file.columns.map(({ name }) => name);
  const fields = fieldsOfTable(source.name, names, options.columns, options.ownTexts);
  options.onTable?.({ columns: names, typed: file.columns });
  options.onColumns?.(takenColumns(fields, names, options.columns, options.ownTexts));
  const wanted = new Set(fields.map(([, column]) => column));
  const read = file.columns.filter(
    ({ name }) => options.carryFields || options.joined !== undefined || options.templated === true || wanted.has(name),
  );
  let number = 0;
  for (const [group, { rows }] of file.groups.entries()) {
    for await (const batch of batches(file, group, rows, read)) {
      const made = await parquetErrors(source.name, () => rowsOfBatch(batch, number, fields, wanted, options));
      await source.check?.();
      yield* made;
      number += batch.count;
    }
  }
}

async function opened({ path, name }: RowSource): Promise<ParquetFile> {
  if (path === undefined) {
    throw new JobFileError(
      name,
      'found a stream, expected a regular file that is not compressed as a whole, as parquet is read from its end',
    );
  }
  return ParquetFile.open(path, name);
}

interface BatchColumn {
  readonly column: Column;
  readonly slots: readonly Slots[];
}

interface RowBatch {
  readonly count: number;
  /** The bytes that each row takes; more than `PARQUET_LIMITS.rowBytes` for one that is not there as a whole. */
  readonly bytes: Float64Array;
  readonly columns: readonly BatchColumn[];
}

/** The rows of a group, as many at a time as are there of all columns. */
async function* batches(
  file: ParquetFile,
  group: number,
  rows: number,
  read: readonly Column[],
): AsyncGenerator<RowBatch, void, undefined> {
  const held: HeldPages = { bytes: 0 };
  const columns = read.map((column) => ({
    column,
    readers: column.leaves.map((leaf) => new LeafReader(file, file.chunkOf(group, leaf.index), leaf, held)),
  }));
  const all = columns.flatMap(({ readers }) => readers);
  const mostRows = Math.max(1, Math.min(BATCH_ROWS, Math.floor(BATCH_VALUES / all.length)));
  const mostBytes = PARQUET_LIMITS.batchBytes / all.length;
  const filled = (reader: LeafReader, count: number, before: Float64Array): Promise<readonly number[]> =>
    parquetErrors(file.name, () => inColumn(group, reader.leaf, () => reader.fill(count, mostBytes, before)));
  for (let done = 0; done < rows;) {
    let count = Math.min(mostRows, rows - done);
    const bytes = new Float64Array(count);
    for (const reader of all) {
      const own = await filled(reader, count, bytes);
      if (own.length === 0) {
        throw new JobFileError(
          file.name,
          `cannot be read as Parquet: ${where(group, reader.leaf)}: found ${done} rows, expected ${rows}`,
        );
      }
      count = Math.min(count, own.length);
      for (let row = 0; row < count; row++) bytes[row] = (bytes[row] ?? 0) + (own[row] ?? 0);
    }
    done += count;
    yield {
      count,
      bytes,
      columns: columns.map(({ column, readers }) => ({ column, slots: readers.map((reader) => reader.take(count)) })),
    };
  }
  for (const reader of all) {
    if ((await filled(reader, 1, new Float64Array(1))).length > 0) {
      throw new JobFileError(
        file.name,
        `cannot be read as Parquet: ${where(group, reader.leaf)}: found more than the ${rows} rows that there are said to be`,
      );
    }
    reader.close();
  }
}

async function inColumn<T>(group: number, leaf: Leaf, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof Error && 'syscall' in error) throw error;
    throw new Error(`${where(group, leaf)}: ${error instanceof Error ? error.message : String(error)}`, {
      cause: error,
    });
  }
}

function where(group: number, leaf: Leaf): string {
  return `row group ${group}, column ${nameOf(leaf)}`;
}

async function rowsOfBatch(
  { columns, count, bytes }: RowBatch,
  before: number,
  fields: ReturnType<typeof fieldsOfTable>,
  wanted: ReadonlySet<string>,
  { carryFields, exact = false, templated = false, joined }: ReadOptions,
): Promise<readonly RowInput[]> {
  const leaves = columns.flatMap(({ column }) => column.leaves);
  // Without columns that are fields a row has no prompt, and says so.
  const readable = await readInTurns(columns, ({ name }) => templated || wanted.has(name), wanted);
  const carried = carryFields && !exact ? await readInTurns(columns, () => true, new Set()) : [];
  const batch =
    exact || joined === 'exact'
      ? new Batch(
          leaves,
          columns.flatMap(({ slots }) => slots),
        )
      : undefined;
  const old = leaves.flatMap((leaf, place) => (leaf.element.type === 'INT96' ? [{ leaf, place }] : []));
  const rowAt = (at: number): RowInput => {
    const values = recordOf(readable, at);
    const { carry: _carry, ...read } = tableRow(values, fields, before + at + 1, templated);
    const number = before + at + 1;
    const far = old.find((leaf) => batch && hasFarMoment(batch, at, leaf.place));
    const row =
      (bytes[at] ?? 0) > PARQUET_LIMITS.rowBytes
        ? failed(
            read,
            number,
            'limit',
            `found values of more than ${PARQUET_LIMITS.rowBytes} bytes together, or a list of more than ${PARQUET_LIMITS.listValues}, expected at most so many`,
          )
        : far
          ? failed(
              read,
              number,
              'invalid-row',
              `column ${nameOf(far.leaf)}: found a moment that nanoseconds in 64 bits do not reach, expected one from 1677 to 2262; write CSV or lines of JSON instead`,
            )
          : read;
    if (!carryFields) return row;
    return {
      ...row,
      carry: exact && batch ? withCells(batch, at) : recordOf(carried, at),
    };
  };
  const turns = new Turns();
  const rows: RowInput[] = [];
  for (let at = 0; at < count; at++) {
    if (turns.due) await turns.give();
    rows.push(rowAt(at));
  }
  return rows;
}

type ReadColumn = readonly [name: string, values: ArrayLike<unknown>];

/** The values of columns; others have their turn between two that are long. @param texts those taken for text */
async function readInTurns(
  columns: readonly BatchColumn[],
  isRead: (column: Column) => boolean,
  texts: ReadonlySet<string>,
): Promise<readonly ReadColumn[]> {
  const turns = new Turns();
  const read: ReadColumn[] = [];
  for (const { column, slots } of columns) {
    if (!isRead(column)) continue;
    if (turns.due) await turns.give();
    const own = await withLongTexts(column, slots, turns);
    read.push([column.name, readableValues(column, own, texts.has(column.name))]);
  }
  return read;
}

/**
 * A row's values by the names of their columns, put in one after the other: so V8 keeps the names of all rows once,
 * which of entries it would make a table a row.
 */
function recordOf(columns: readonly ReadColumn[], row: number): Record<string, unknown> {
  const record: Record<string, unknown> = {};
  for (const [name, values] of columns) setOwn(record, name, values[row] ?? null);
  return record;
}

/** A row of which not all values are there, or can be written. @param number of the row, from 1 */
function failed({ id, duplicate }: RowInput, number: number, code: RowErrorCode, message: string): RowInput {
  return {
    id: id ?? number,
    ...(duplicate !== undefined && { duplicate }),
    error: { code, message: `row ${number}: ${message}; it is left out` },
  };
}

/** Tells whether a row has a moment in the old form that cannot be written in the new one. */
function hasFarMoment(batch: Batch, row: number, leaf: number): boolean {
  let far = false;
  batch.forEach(row, leaf, (value) => {
    if (typeof value === 'bigint' && !isWrittenAsNanos(value)) far = true;
  });
  return far;
}
