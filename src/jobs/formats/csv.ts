import { stringify } from 'csv-stringify/sync';
import type { Work } from '../../collections/drained.js';
import { inTurns } from '../../collections/inTurns.js';
import { setOwn } from '../../collections/setOwn.js';
import { Turns } from '../../collections/Turns.js';
import { JobFileError } from '../../errors/JobFileError.js';
import { ROW_LIMITS } from '../../model/files/limits.js';
import type { RowInput } from '../../Row.js';
import { keepRecord, namesOf, recordOf } from './carriedRecord.js';
import { cell } from './columnText.js';
import { csvDialect } from './csvDialect.js';
import { CsvRecords } from './csvRecords.js';
import { resultColumns } from './resultColumns.js';
import type { FinishedRow, ReadOptions, RowFormat, RowSource, WriteOptions } from './RowFormat.js';
import { checkColumns, fieldsOfTable, takenColumns, tableRowInTurns } from './tableRow.js';
import { utf8Text } from './utf8Text.js';

/**
 * Values with commas, or with whatever else the header says, between them. RFC 4180, and what spreadsheets make of it.
 */
export const csv: RowFormat = separatedValues('csv', ['csv']);

/** Values with tabs between them. */
export const tsv: RowFormat = separatedValues('tsv', ['tsv', 'tab'], '\t');

function separatedValues(name: string, extensions: readonly string[], ownDelimiter?: string): RowFormat {
  return {
    name,
    extensions,
    carries: true,
    appendable: true,
    rows: (source, options) =>
      rowsOf(source, { ...options, ...(ownDelimiter !== undefined && { delimiter: ownDelimiter }) }),
    encode: (results, options) =>
      encode(results, options, (origin) => options.delimiter ?? ownDelimiter ?? origin ?? ','),
  };
}

async function* rowsOf(source: RowSource, options: ReadOptions): AsyncGenerator<RowInput, void, undefined> {
  // A row of tens of thousands of columns takes tens of milliseconds, from step to step.
  const turns = new Turns();
  const { dialect, text } = await csvDialect(utf8Text(source), options.delimiter);
  let header: readonly string[] | undefined;
  let fields: ReturnType<typeof fieldsOfTable> = [];
  /** The kept columns of a row: all, or those that are fields, with their places. */
  let kept: readonly (readonly [column: string, at: number])[] = [];
  let number = 0;
  const records = new CsvRecords(text, dialect.delimiter, options.maxLineBytes, ROW_LIMITS.tableColumns);
  if (turns.due) await turns.give();
  for await (const { values: record, raw, problem } of records) {
    if (turns.due) await turns.give();
    if (header === undefined) {
      if (problem !== undefined) throw new JobFileError(source.name, problem.message);
      header = record;
      fields = fieldsOfTable(source.name, header, options.columns, options.ownTexts);
      if (turns.due) await turns.give();
      options.onTable?.({ columns: header, dialect });
      if (turns.due) await turns.give();
      const wanted = new Set(fields.map(([, column]) => column));
      const whole = options.carryFields || options.templated === true;
      kept = header.map((column, at) => [column, at] as const).filter(([column]) => whole || wanted.has(column));
      options.onColumns?.(takenColumns(fields, header, options.columns, options.ownTexts));
    } else {
      number += 1;
      const values = withRest(record, header.length, dialect.delimiter);
      const made = inTurns(valuesByName(kept, values));
      const carry = made instanceof Promise ? await made : made;
      if (turns.due) await turns.give();
      if (problem === undefined && record.length === header.length) {
        if (options.carryFields)
          keepRecord(carry, { columns: header, delimiter: dialect.delimiter, ...(raw !== undefined && { raw }) });
        const read = tableRowInTurns(carry, fields, number, options.templated);
        const { carry: all, ...row } = read instanceof Promise ? await read : read;
        if (turns.due) await turns.give();
        yield options.carryFields && all !== undefined ? { ...row, carry: all } : row;
      } else {
        keepRecord(carry, { columns: header, delimiter: dialect.delimiter });
        const message = `row ${number}: found ${record.length > ROW_LIMITS.tableColumns ? `more than ${ROW_LIMITS.tableColumns}` : record.length} values, expected ${header.length}, as the header has columns`;
        yield {
          id: number,
          duplicate: false,
          error: problem ?? { code: 'invalid-row', message },
          ...(options.carryFields && { carry }),
        };
      }
    }
  }
  if (header === undefined)
    throw new JobFileError(source.name, 'found no header, expected a first line with the names of the columns');
}

async function* encode(
  results: AsyncIterable<FinishedRow>,
  options: WriteOptions,
  delimiterOf: (origin: string | undefined) => string,
): AsyncGenerator<string, void, undefined> {
  let write: ((row: FinishedRow) => string) | undefined;
  const begin = (first: FinishedRow | undefined): string => {
    const table = options.table();
    const carried = table?.columns ?? namesOf(first?.carry);
    const known = new Set(carried);
    const isHeader = sameAs(carried);
    const columns = resultColumns(carried, options, true);
    const delimiter = delimiterOf(table?.dialect?.delimiter);
    const format = { delimiter, record_delimiter: table?.dialect?.lineEnd ?? '\n', quoted_match: /[\r\n]/ };
    write = ({ result, carry = {} }) => {
      const values = columns.map(({ value }) => cell(value(result)));
      const record = recordOf(carry);
      if (record?.raw !== undefined && record.delimiter === delimiter && isHeader(record.columns))
        return `${record.raw}${delimiter}${stringify([values], format)}`;
      checkColumns(options.name, known, carry);
      return stringify([[...carried.map((column) => cell(carry[column])), ...values]], format);
    };
    return (
      (table?.dialect?.byteOrderMark === true ? '\ufeff' : '') +
      stringify([[...carried, ...columns.map(({ name }) => name)]], format)
    );
  };
  for await (const row of results) {
    if (write === undefined) yield begin(row);
    yield write?.(row) ?? '';
  }
  if (write === undefined) yield begin(undefined);
}

/** Columns whose values are put into a row between two moments at which others may have their turn. */
const COLUMNS = 2 ** 12;

/** A record's values by the names of their columns; stops on the way through many. */
export function* valuesByName(
  kept: readonly (readonly [column: string, at: number])[],
  values: readonly string[],
): Work<Record<string, unknown>> {
  if (kept.length <= COLUMNS) return Object.fromEntries(kept.map(([column, at]) => [column, values[at] ?? '']));
  const record: Record<string, unknown> = {};
  for (const [nth, [column, at]] of kept.entries()) {
    if (nth % COLUMNS === COLUMNS - 1) yield;
    setOwn(record, column, values[at] ?? '');
  }
  return record;
}

/**
 * The values of a record of which there are more than columns: those that are too much stay in the last one, as they
 * would stand in a file, so that who mends the row has all of it.
 */
function withRest(record: readonly string[], columns: number, delimiter: string): readonly string[] {
  if (record.length <= columns) return record;
  return [...record.slice(0, columns - 1), stringify([record.slice(columns - 1)], { delimiter, eof: false })];
}

/** Looks whether a list has the same names in the same order. Rows of one file have one list: it is looked at once. */
function sameAs(names: readonly string[]): (others: readonly string[]) => boolean {
  let last: readonly string[] | undefined;
  let isSame = false;
  return (others) => {
    if (others !== last)
      [last, isSame] = [others, others.length === names.length && others.every((name, at) => name === names[at])];
    return isSame;
  };
}
