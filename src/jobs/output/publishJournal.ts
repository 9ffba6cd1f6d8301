import { isObject, membersOf } from '../../arguments/isObject.js';
import { JobFileError } from '../../errors/JobFileError.js';
import { SpillwayError } from '../../errors/SpillwayError.js';
import type { AnyResult } from '../../Results.js';
import type { RowInput } from '../../Row.js';
import { BEGIN_ANEW, describeFileError } from '../../files/fileErrors.js';
import { compressed } from '../formats/compression.js';
import type { FileFormat } from '../jobFormats.js';
import type { FinishedRow, WriteOptions } from '../formats/RowFormat.js';
import { addKinds, type ColumnKind, type Table } from '../formats/Table.js';
import { modeOf, replaceKeepingMode } from '../../files/atomicFile.js';
import { type Journal, journalLines } from './Journal.js';

/** Rows are not trusted: each may have fields of its own. */
const MOST_COLUMNS = 4096;

/** What becomes of a journal. */
export interface Publication {
  /** Results, one JSON object a line, in the order of the input. */
  readonly journal: Journal;
  readonly path: string;
  readonly file: FileFormat;
  readonly options: WriteOptions;
  /** Which results go there. */
  readonly wanted: (result: AnyResult) => boolean;
  /** The rows of the input, whose columns go with the results; undefined where the results have them. */
  readonly rows?: AsyncIterable<RowInput> | Iterable<RowInput>;
}

/**
 * Writes the results of a journal as a file of another format, which takes its place as a whole.
 * @throws JobFileError; what stood there is then as it was
 */
export async function publishJournal({ journal, path, file, options, wanted, rows }: Publication): Promise<void> {
  try {
    const results = finished(journal, wanted);
    const content = compressed(
      file.format.encode(rows === undefined ? carried(results) : joined(results, rows, journal), options),
      file.compression,
      path,
    );
    // Whoever may not read the journal may not read what is made of it.
    await replaceKeepingMode(path, content, await modeOf(journal.path));
  } catch (error) {
    if (error instanceof SpillwayError) throw error;
    throw new JobFileError(
      path,
      `cannot be written: ${describeFileError(error)}; all results are safe in ${journal.path}, and \`resume\` writes it once more`,
      { cause: error },
    );
  }
}

/**
 * All fields that results carry, in the order in which they come first, and what is in them.
 * @throws JobFileError where they are too many for columns
 */
export async function carriedTable(journal: Journal): Promise<Table> {
  const columns = new Set<string>();
  const kinds = new Map<string, ColumnKind>();
  for await (const { number, result } of journalLines(journal)) {
    const row = membersOf(result.row);
    for (const column of Object.keys(row)) columns.add(column);
    addKinds(kinds, row);
    if (columns.size > MOST_COLUMNS) {
      throw new JobFileError(
        journal.path,
        `line ${number}: found more than ${MOST_COLUMNS} names of carried fields, expected at most so many columns; write lines of JSON`,
      );
    }
  }
  return { columns: [...columns], kinds };
}

async function* finished(
  journal: Journal,
  wanted: (result: AnyResult) => boolean,
): AsyncGenerator<AnyResult, void, undefined> {
  for await (const { number, result } of journalLines(journal)) {
    const { text, label, scores, embedding, error, usage } = membersOf(result);
    const answered = [text, label, scores, embedding, error].some((answer) => answer !== undefined);
    if (!answered || !isObject(usage))
      throw new JobFileError(journal.path, `line ${number}: found a result without text or usage; ${BEGIN_ANEW}`);
    if (wanted(result)) yield result;
  }
}

async function* carried(results: AsyncIterable<AnyResult>): AsyncGenerator<FinishedRow, void, undefined> {
  for await (const result of results) yield { result, carry: result.row };
}

/** Results beside their rows: both in the order of the input. */
async function* joined(
  results: AsyncIterable<AnyResult>,
  rows: AsyncIterable<RowInput> | Iterable<RowInput>,
  journal: Journal,
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
          journal.path,
          `found a result of row ${result.index}, expected one of the ${index} rows of the input`,
        );
      yield { result, carry: step.value.carry };
    }
  } finally {
    await iterator.return?.();
  }
}
