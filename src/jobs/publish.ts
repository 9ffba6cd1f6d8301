import { open, realpath, rename, rm } from 'node:fs/promises';
import { isObject } from '../arguments/isObject.js';
import { membersOf } from '../arguments/membersOf.js';
import { JobFileError } from '../errors/JobFileError.js';
import { SpillwayError } from '../errors/SpillwayError.js';
import { syncFolder } from '../model/files/replaceFile.js';
import { removeLeftovers, temporaryPath } from '../model/files/temporaryFiles.js';
import type { RowInput, RowResult } from '../Row.js';
import { BEGIN_ANEW, fileFailure } from './fileErrors.js';
import { compressed } from './formats/compression.js';
import type { FileFormat } from './formats/detectFormat.js';
import type { FinishedRow, WriteOptions } from './formats/RowFormat.js';
import { outputLines } from './scanOutput.js';

/** Written at a time. */
const PIECE_BYTES = 2 ** 20;
/** Rows are not trusted: each may have fields of its own. */
const MOST_COLUMNS = 4096;

/** What becomes of a journal. */
export interface Publication {
  /** Results, one JSON object a line, in the order of the input. */
  readonly journal: string;
  readonly path: string;
  readonly file: FileFormat;
  readonly options: WriteOptions;
  /** Which results go there. */
  readonly wanted: (result: RowResult) => boolean;
  /** The rows of the input, whose columns go with the results; undefined where the results have them. */
  readonly rows?: AsyncIterable<RowInput> | Iterable<RowInput>;
}

/**
 * Writes the results of a journal as a file of another format, which takes its place as a whole.
 * @throws JobFileError; what stood there is then as it was
 */
export async function publish({ journal, path, file, options, wanted, rows }: Publication): Promise<void> {
  let temporary: string | undefined;
  try {
    const place = await realpath(path).catch(() => path);
    removeLeftovers(place);
    temporary = temporaryPath(place);
    const results = finished(journal, wanted);
    await writeWhole(temporary, compressed(file.format.encode(rows === undefined ? carried(results) : joined(results, rows, journal), options), file.compression, path));
    await rename(temporary, place);
    await syncFolder(place);
  } catch (error) {
    if (temporary !== undefined) await rm(temporary, { force: true }).catch(() => undefined);
    throw error instanceof SpillwayError ? error : fileFailure(path, 'written', error);
  }
}

/**
 * All names of fields that results carry, in the order in which they come first.
 * @throws JobFileError where they are too many for columns
 */
export async function carriedColumns(journal: string): Promise<readonly string[]> {
  const columns = new Set<string>();
  for await (const { number, result } of outputLines(journal)) {
    for (const column of Object.keys(membersOf(result.row))) columns.add(column);
    if (columns.size > MOST_COLUMNS) {
      throw new JobFileError(journal, `line ${number}: found more than ${MOST_COLUMNS} names of carried fields, expected at most so many columns; write lines of JSON`);
    }
  }
  return [...columns];
}

async function writeWhole(path: string, chunks: AsyncIterable<Uint8Array | string>): Promise<void> {
  const handle = await open(path, 'wx');
  try {
    let pending: Buffer[] = [];
    let bytes = 0;
    const flush = async (): Promise<void> => {
      await handle.appendFile(Buffer.concat(pending, bytes));
      [pending, bytes] = [[], 0];
    };
    for await (const chunk of chunks) {
      const piece = Buffer.from(chunk as Uint8Array);
      pending.push(piece);
      bytes += piece.length;
      if (bytes > PIECE_BYTES) await flush();
    }
    await flush();
    await handle.sync();
  } finally {
    await handle.close();
  }
}

async function* finished(journal: string, wanted: (result: RowResult) => boolean): AsyncGenerator<RowResult, void, undefined> {
  for await (const { number, result } of outputLines(journal)) {
    const { text, usage } = membersOf(result);
    if (typeof text !== 'string' || !isObject(usage)) throw new JobFileError(journal, `line ${number}: found a result without text or usage; ${BEGIN_ANEW}`);
    if (wanted(result)) yield result;
  }
}

async function* carried(results: AsyncIterable<RowResult>): AsyncGenerator<FinishedRow, void, undefined> {
  for await (const result of results) yield { result, carry: result.row };
}

/** Results beside their rows: both in the order of the input. */
async function* joined(results: AsyncIterable<RowResult>, rows: AsyncIterable<RowInput> | Iterable<RowInput>, journal: string): AsyncGenerator<FinishedRow, void, undefined> {
  const iterator = Symbol.asyncIterator in rows ? rows[Symbol.asyncIterator]() : rows[Symbol.iterator]();
  try {
    // At once, as the table's header is wanted even if there is no result.
    let step = await iterator.next();
    let index = 0;
    for await (const result of results) {
      for (; index < result.index; index += 1) step = await iterator.next();
      if (step.done === true) throw new JobFileError(journal, `found a result of row ${result.index}, expected one of the ${index} rows of the input`);
      yield { result, carry: step.value.carry };
    }
  } finally {
    await iterator.return?.();
  }
}
