import { ReadStream } from 'node:fs';
import { checkMembers, type Check } from '../../arguments/checkMembers.js';
import { checkBoolean, checkFunction, checkText, checkWhole } from '../../arguments/checks.js';
import { found } from '../../arguments/found.js';
import { isIterable } from '../../arguments/isObject.js';
import { cancellable, madeOf } from '../../collections/cancellable.js';
import { oneOf, text, whole } from '../../arguments/memberChecks.js';
import { UsageError } from '../../errors/UsageError.js';
import { ROW_LIMITS } from '../../model/files/limits.js';
import type { RowInput } from '../../Row.js';
import { bytesOf, readable, unchangedBytes } from '../../files/fileBytes.js';
import { checkColumns, checkDelimiter } from '../formats/checkColumns.js';
import { decompressed } from '../formats/compression.js';
import { inputFormat } from '../jobFormats.js';
import type { ReadOptions, RowSource, TakenColumns } from '../formats/RowFormat.js';
import { checkFormat, type FormatChoice } from '../formats/rowFormats.js';
import { JOB_TASKS, type JobTaskName } from '../../Results.js';
import { readLines } from '../formats/readLines.js';
import type { Table } from '../formats/Table.js';
import { noteRead, noteTable } from './tableOfRows.js';

/** A path, or bytes: a Node Readable, a web ReadableStream, any async iterable of chunks. */
export type ByteSource = string | AsyncIterable<Uint8Array | string>;

export interface ReadRowsOptions {
  /**
   * `jsonl`: one JSON object a line. `text`: a line is a prompt. `csv`, `tsv`: a table with a header. `parquet`: a
   * path's alone. `openai-batch`: requests of OpenAI's Batch API. `auto` (the default): what a path's name says, then
   * what the file begins with, else `jsonl`.
   */
  readonly format?: FormatChoice;
  /**
   * The task to be done with the rows: a request of OpenAI's Batch API for anything else is a row with an error.
   * Default `generate`.
   */
  readonly task?: JobTaskName;
  /**
   * Fields of a row by the columns that hold them. Default: `id`, `prompt`, `messages`, `tokens`, `labels` and
   * `completions` by those of the same name; parameters (`temperature`, `seed`, …) of tables, and of lines of JSON
   * that are `templated`, are in no column that is not named; those of other lines of JSON by their names.
   */
  readonly columns?: Readonly<Record<string, string>>;
  /**
   * True if columns called `labels` and `completions` are a row's own where `columns` does not name them. Default true;
   * false is for a run that says them itself, whose rows may have columns called so that are data.
   */
  readonly ownTexts?: boolean;
  /** The delimiter of the values of `csv`. Default: what the header says. */
  readonly delimiter?: string;
  /** Keep the fields that are not ours (of a table: all columns) as the row's `carry`. Default false. */
  readonly carryFields?: boolean;
  /**
   * All fields of a row are values for a `promptTemplate`: they go into its `fields`, and no prompt is looked for.
   * Default false.
   */
  readonly templated?: boolean;
  /** A longer line becomes a bad row and is never held in memory. Bytes; default 8 MiB. */
  readonly maxLineBytes?: number;
  /** The source's name in errors. Default: the path, or `input`. */
  readonly name?: string;
  /**
   * Called once, before the first row, with the columns that hold fields of a row: of tables, and of lines of JSON that
   * are `templated`.
   */
  readonly onColumns?: (columns: TakenColumns) => void;
}

const CHECKS: Readonly<Record<keyof ReadRowsOptions, Check>> = {
  format: checkFormat,
  task: oneOf(...JOB_TASKS),
  columns: checkColumns,
  ownTexts: checkBoolean,
  delimiter: checkDelimiter,
  carryFields: checkBoolean,
  templated: checkBoolean,
  maxLineBytes: whole(1),
  name: text(),
  onColumns: checkFunction,
};

/**
 * Rows from a file or stream, one at a time: holds one row and one chunk, whatever the input's length.
 * Blank lines are skipped; a row without an id gets its line's number from 1 (of a table: its own), and `duplicate` is
 * false: nobody gave it, so it may be another row's too. What is no row becomes a `BadRow` with the reason, never an
 * exception.
 * @throws UsageError at once for a wrong argument; JobFileError, while it is iterated, when the source cannot be read
 */
export function readRows(source: ByteSource, options: ReadRowsOptions = {}): AsyncGenerator<RowInput, void, undefined> {
  checkMembers('options', options, CHECKS);
  const {
    format,
    task = 'generate',
    carryFields = false,
    templated = false,
    maxLineBytes = ROW_LIMITS.lineBytes,
    columns,
    ownTexts = true,
    delimiter,
    name,
    onColumns,
  } = options;
  checkSource(source, maxLineBytes, name);
  const read = {
    task,
    carryFields,
    templated,
    maxLineBytes,
    ownTexts,
    ...(columns && { columns }),
    ...(delimiter !== undefined && { delimiter }),
    ...(onColumns && { onColumns }),
    ...(carryFields && { onTable: (table: Table) => noteTable(rows, table) }),
  };
  // A file is closed by itself; of what may never give another chunk, reading ends at once.
  const rows: AsyncGenerator<RowInput, void, undefined> =
    typeof source === 'string'
      ? rowsOf(source, source, name, format, read)
      : cancellable({
          [Symbol.asyncIterator]: () => madeOf(source, (chunks) => rowsOf(source, chunks, name, format, read)),
        });
  return noteRead(rows);
}

/** @param chunks the source's, or its path */
async function* rowsOf(
  source: ByteSource,
  chunks: ByteSource,
  givenName: string | undefined,
  choice: FormatChoice | undefined,
  options: ReadOptions,
): AsyncGenerator<RowInput, void, undefined> {
  const path = typeof source === 'string' ? source : undefined;
  const { format, compression } = await inputFormat(path, choice);
  const name = givenName ?? path ?? 'input';
  const read: RowSource = {
    name,
    ...(path !== undefined && { path }),
    bytes: () => decompressed(readable(bytesFrom(source, name, chunks), name), compression, name),
  };
  yield* format.rows(read, options);
}

/**
 * The lines of a source, with its failures as JobFileError.
 * @param maxLineBytes of a longer line nothing is held; from 1
 * @param name what errors call the source; default: the path, or `input`
 * @throws UsageError at once for a wrong argument
 */
export function openLines(source: ByteSource, maxLineBytes: number, name?: string): ReturnType<typeof readLines> {
  checkSource(source, maxLineBytes, name);
  const file = name ?? (typeof source === 'string' ? source : 'input');
  return readLines(readable(bytesFrom(source, file), file), maxLineBytes);
}

function bytesFrom(source: ByteSource, name: string, chunks: ByteSource = source): AsyncIterable<Uint8Array | string> {
  if (typeof chunks === 'string') return bytesOf(chunks);
  if (source === process.stdin) return unchangedBytes(chunks, process.stdin.fd, name);
  return source instanceof ReadStream && source.path ? unchangedBytes(chunks, String(source.path), name) : chunks;
}

function checkSource(source: unknown, maxLineBytes: number, name: string | undefined): void {
  if (typeof source !== 'string' && !isIterable(source))
    throw new UsageError(`source: found ${found(source)}, expected a file's path or an iterable of bytes`);
  checkWhole('maxLineBytes', maxLineBytes, 1);
  if (name !== undefined) checkText('name', name);
}
