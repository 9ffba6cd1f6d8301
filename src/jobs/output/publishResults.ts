import { isObject, membersOf } from '../../arguments/isObject.js';
import { JobFileError } from '../../errors/JobFileError.js';
import { SpillwayError } from '../../errors/SpillwayError.js';
import type { AnyResult } from '../../Results.js';
import type { RowInput } from '../../Row.js';
import { rowsOfResult } from '../../rows/rowsOfResult.js';
import { BEGIN_ANEW, describeFileError } from '../../files/fileErrors.js';
import { compressed } from '../formats/compression.js';
import type { FileFormat } from '../jobFormats.js';
import { resultOfLine, type ResultLine } from '../formats/formatResult.js';
import type { FinishedRow, WriteOptions } from '../formats/RowFormat.js';
import { addKinds, type ColumnKind, type Table } from '../formats/Table.js';
import { modeOf, replaceKeepingMode } from '../../files/atomicFile.js';
import { type Journal, type JournalLine, journalLines } from './Journal.js';

/** Rows are not trusted: each may have fields of its own. */
const MOST_COLUMNS = 4096;

/** Results in the order of the input, as often as they are asked for. */
export interface ResultLines {
  /** The name in errors of whatever holds the results. */
  readonly name: string;
  /** Where they are when the output could not be written; of a journal `publishJournal` says it. */
  readonly kept?: string;
  /** Who may read them. */
  readonly mode: number | undefined;
  lines(): AsyncIterable<JournalLine>;
}

/** The output that results become. */
export interface Publication {
  readonly results: ResultLines;
  readonly path: string;
  readonly file: FileFormat;
  readonly options: WriteOptions;
  /** Which results of a row go there. */
  readonly wanted: (row: readonly ResultLine[]) => readonly ResultLine[];
  /** The rows of the input, whose columns go with the results; undefined where the results have them. */
  readonly rows?: AsyncIterable<RowInput> | Iterable<RowInput>;
}

/** The results of a journal that is in order. @param signal ends reading them with an InterruptedError */
export async function journalResults(journal: Journal, signal?: AbortSignal): Promise<ResultLines> {
  const { path } = journal;
  return {
    name: path,
    mode: await modeOf(path),
    lines: () => journalLines(journal, { signal }),
  };
}

/**
 * Writes results as a file of another format, which takes its place as a whole.
 * @throws JobFileError; what stood there is then as it was
 */
export async function publishResults({ results, path, file, options, wanted, rows }: Publication): Promise<void> {
  const there = finished(results, wanted);
  const content = compressed(
    file.format.encode(rows === undefined ? carried(there) : joined(there, rows, results.name), options),
    file.compression,
    path,
  );
  await putInPlace(path, content, results);
}

/** Replaces an output as a whole. @throws JobFileError; what stood there is then as it was */
export async function putInPlace(
  path: string,
  content: AsyncIterable<string | Uint8Array>,
  { kept, mode }: Pick<ResultLines, 'kept' | 'mode'>,
): Promise<void> {
  try {
    // Whoever may not read the journal may not read what is made of it.
    await replaceKeepingMode(path, content, mode);
  } catch (error) {
    if (error instanceof SpillwayError) throw error;
    const more = kept === undefined ? '' : `; ${kept}`;
    throw new JobFileError(path, `cannot be written: ${describeFileError(error)}${more}`, { cause: error });
  }
}

/**
 * All fields that results carry, and what is in them: first those that the input is known to have, then the others in
 * the order in which they come first.
 * @throws JobFileError where they are too many for columns
 */
export async function carriedTable(results: ResultLines, known?: Table): Promise<Table> {
  const columns = new Set(known?.columns);
  const kinds = new Map<string, ColumnKind>();
  for await (const { number, result } of results.lines()) {
    const row = membersOf(result.row);
    for (const column of Object.keys(row)) columns.add(column);
    addKinds(kinds, row);
    if (columns.size > MOST_COLUMNS) {
      throw new JobFileError(
        results.name,
        `line ${number}: found more than ${MOST_COLUMNS} names of carried fields, expected at most so many columns; write lines of JSON`,
      );
    }
  }
  return { columns: [...columns], ...(known?.dialect && { dialect: known.dialect }), kinds };
}

async function* finished(
  results: ResultLines,
  wanted: Publication['wanted'],
): AsyncGenerator<AnyResult, void, undefined> {
  let row: ResultLine[] = [];
  for await (const { number, result } of results.lines()) {
    const rows = rowsOfResult(result);
    if (!rows.every(isAnswered))
      throw new JobFileError(results.name, `line ${number}: found a result without text or usage; ${BEGIN_ANEW}`);
    if (row.length > 0 && row[0]?.index !== result.index) {
      yield* wanted(row).map(resultOfLine);
      row = [];
    }
    row.push(...rows);
  }
  yield* wanted(row).map(resultOfLine);
}

function isAnswered(result: ResultLine): boolean {
  const { text, answers, label, scores, embedding, error, usage } = membersOf(result);
  return [text, answers, label, scores, embedding, error].some((answer) => answer !== undefined) && isObject(usage);
}

async function* carried(results: AsyncIterable<AnyResult>): AsyncGenerator<FinishedRow, void, undefined> {
  for await (const result of results) yield { result, carry: result.carry };
}

/** Results beside their rows: both in the order of the input. */
async function* joined(
  results: AsyncIterable<AnyResult>,
  rows: AsyncIterable<RowInput> | Iterable<RowInput>,
  name: string,
): AsyncGenerator<FinishedRow, void, undefined> {
  const iterator = Symbol.asyncIterator in rows ? rows[Symbol.asyncIterator]() : rows[Symbol.iterator]();
  try {
    // At once, as the table's header is wanted even if there is no result.
    let step = await iterator.next();
    let index = 0;
    for await (const result of results) {
      for (; index < result.index; index += 1) step = await iterator.next();
      if (step.done === true)
        throw new JobFileError(
          name,
          `found a result of row ${result.index}, expected one of the ${index} rows of the input`,
        );
      yield { result, carry: step.value.carry };
    }
  } finally {
    await iterator.return?.();
  }
}
