import { JobFileError } from '../../../errors/JobFileError.js';
import type { RowInput } from '../../../Row.js';
import type { ReadOptions, RowSource } from '../RowFormat.js';
import { fieldsOfTable, takenColumns, tableRow } from '../tableRow.js';
import { Batch, withCells } from './cells.js';
import { LeafReader, type Slots } from './LeafReader.js';
import { ParquetFile, parquetErrors } from './ParquetFile.js';
import { readableValues } from './readable.js';
import { nameOf, type Column, type Leaf } from './schema.js';

/** Rows that are made at a time. */
const BATCH_ROWS = 1024;

/** How many rows a file has, as it says at its end. @throws JobFileError */
export async function countParquet(source: RowSource): Promise<number> {
  await using file = await opened(source);
  return file.rows;
}

/** The rows of a file, row group by row group, page by page. @throws JobFileError */
export async function* readParquet(source: RowSource, options: ReadOptions): AsyncGenerator<RowInput, void, undefined> {
  await using file = await opened(source);
  const names = file.columns.map(({ name }) => name);
  const fields = fieldsOfTable(source.name, names, options.columns);
  options.onTable?.({ columns: names, typed: file.columns });
  options.onColumns?.(takenColumns(fields, names, options.columns));
  const wanted = new Set(fields.map(([, column]) => column));
  const read = file.columns.filter(({ name }) => options.carryFields || options.templated === true || wanted.has(name));
  let number = 0;
  for (const [group, { rows }] of file.groups.entries()) {
    for await (const { count, columns } of batches(file, group, rows, read)) {
      const made = await parquetErrors(source.name, async () =>
        rowsOfBatch(columns, count, number, fields, wanted, options),
      );
      await source.check?.();
      yield* made;
      number += count;
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

/** The rows of a group, as many at a time as are there of all columns. */
async function* batches(
  file: ParquetFile,
  group: number,
  rows: number,
  read: readonly Column[],
): AsyncGenerator<{ count: number; columns: readonly BatchColumn[] }, void, undefined> {
  const columns = read.map((column) => ({
    column,
    readers: column.leaves.map((leaf) => new LeafReader(file, file.chunkOf(group, leaf.index), leaf)),
  }));
  const all = columns.flatMap(({ readers }) => readers);
  const availableOf = (reader: LeafReader): Promise<number> =>
    parquetErrors(file.name, () => inColumn(group, reader.leaf, () => reader.available()));
  for (let done = 0; done < rows;) {
    let count = Math.min(BATCH_ROWS, rows - done);
    for (const reader of all) {
      const available = await availableOf(reader);
      if (available === 0) {
        throw new JobFileError(
          file.name,
          `cannot be read as Parquet: ${where(group, reader.leaf)}: found ${done} rows, expected ${rows}`,
        );
      }
      count = Math.min(count, available);
    }
    done += count;
    yield {
      count,
      columns: columns.map(({ column, readers }) => ({ column, slots: readers.map((reader) => reader.take(count)) })),
    };
  }
  for (const reader of all) {
    if ((await availableOf(reader)) > 0) {
      throw new JobFileError(
        file.name,
        `cannot be read as Parquet: ${where(group, reader.leaf)}: found more than the ${rows} rows that there are said to be`,
      );
    }
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

function rowsOfBatch(
  columns: readonly BatchColumn[],
  count: number,
  before: number,
  fields: ReturnType<typeof fieldsOfTable>,
  wanted: ReadonlySet<string>,
  { carryFields, exact = false, templated = false }: ReadOptions,
): readonly RowInput[] {
  // Without columns that are fields a row has no prompt, and says so.
  const readable = columns
    .filter(({ column: { name } }) => templated || wanted.has(name))
    .map(({ column, slots }) => [column.name, readableValues(column, slots, wanted.has(column.name))] as const);
  const carried =
    carryFields && !exact
      ? columns.map(({ column, slots }) => [column.name, readableValues(column, slots, false)] as const)
      : [];
  const batch = exact
    ? new Batch(
        columns.flatMap(({ column }) => column.leaves),
        columns.flatMap(({ slots }) => slots),
      )
    : undefined;
  return Array.from({ length: count }, (_, at): RowInput => {
    const values = Object.fromEntries(readable.map(([name, column]) => [name, column[at]]));
    const { carry: _carry, ...row } = tableRow(values, fields, before + at + 1, templated);
    if (!carryFields) return row;
    return {
      ...row,
      carry: batch
        ? withCells(batch, at)
        : Object.fromEntries(carried.map(([name, column]) => [name, column[at] ?? null])),
    };
  });
}
