import { checkMembers, type Check } from '../../arguments/checkMembers.js';
import { checkBoolean, checkFunction } from '../../arguments/checks.js';
import { found } from '../../arguments/found.js';
import { isIterable, membersOf } from '../../arguments/isObject.js';
import { text } from '../../arguments/memberChecks.js';
import { Turns } from '../../collections/Turns.js';
import { JobFileError } from '../../errors/JobFileError.js';
import { UsageError } from '../../errors/UsageError.js';
import type { RowInput } from '../../Row.js';
import { checkColumns } from '../formats/checkColumns.js';
import { checkPromptColumn, fieldsOfTable, takenColumns, tableRowInTurns } from '../formats/tableRow.js';
import type { ReadRowsOptions } from '../input/readRows.js';
import { noteRead } from '../input/tableOfRows.js';
import type { ArrowBatch, ArrowVector } from './ArrowBatch.js';
import { arrowValue } from './arrowValue.js';

export type ReadRecordBatchesOptions = Pick<
  ReadRowsOptions,
  'columns' | 'ownTexts' | 'carryFields' | 'templated' | 'name' | 'onColumns'
>;

const CHECKS: Readonly<Record<keyof ReadRecordBatchesOptions, Check>> = {
  columns: checkColumns,
  ownTexts: checkBoolean,
  carryFields: checkBoolean,
  templated: checkBoolean,
  name: text(),
  onColumns: checkFunction,
};

/**
 * The rows of record batches of Apache Arrow (`RecordBatch` of `apache-arrow`): of a `RecordBatchReader`, a table's
 * `batches`, or whatever makes them. One batch is held at a time. Values are as JSON holds them, as those of Parquet:
 * decimals, dates, moments and whole numbers beyond 2^53 are text, bytes base64.
 * @param options `columns`, `ownTexts`, `carryFields` and `templated` as `readRows` has them; `name` is what errors
 * call the source, default `record batches`
 * @throws UsageError at once for a wrong argument; while it is iterated JobFileError for batches without prompts, of
 * different columns, or that cannot be read, and whatever the source throws
 * @example
 * const rows = readRecordBatches(await RecordBatchReader.from(createReadStream('questions.arrows')), { columns: {
 * prompt: 'question' } });
 */
export function readRecordBatches(
  batches: AsyncIterable<ArrowBatch> | Iterable<ArrowBatch>,
  options: ReadRecordBatchesOptions = {},
): AsyncGenerator<RowInput, void, undefined> {
  if (!isIterable(batches))
    throw new UsageError(`batches: found ${found(batches)}, expected an iterable of record batches`);
  checkMembers('options', options, CHECKS);
  return noteRead(rowsOf(batches, options));
}

async function* rowsOf(
  batches: AsyncIterable<ArrowBatch> | Iterable<ArrowBatch>,
  {
    columns,
    ownTexts,
    carryFields = false,
    templated = false,
    name = 'record batches',
    onColumns,
  }: ReadRecordBatchesOptions,
): AsyncGenerator<RowInput, void, undefined> {
  let header: readonly string[] | undefined;
  const turns = new Turns();
  let number = 0;
  for await (const batch of batches) {
    const vectors = columnsOf(batch, name);
    const names = vectors.map(([column]) => column);
    if (header === undefined) {
      if (!templated) checkPromptColumn(name, names, columns);
      onColumns?.(takenColumns(fieldsOfTable(name, names, columns, ownTexts), names, columns, ownTexts));
    }
    header ??= names;
    if (header.length !== names.length || header.some((column, at) => column !== names[at])) {
      throw new JobFileError(
        name,
        `found a batch with the columns ${listed(names)}, expected those of the first one, ${listed(header)}`,
      );
    }
    const fields = fieldsOfTable(name, header, columns, ownTexts);
    for (let row = 0; row < batch.numRows; row += 1) {
      number += 1;
      // A batch may have any number of rows, all of which are at hand.
      if (turns.due) await turns.give();
      const { carry, ...given } = await tableRowInTurns(
        Object.fromEntries(
          vectors.map(([column, vector]) => [column, valueOf(vector, row, `${name}, row ${number}, column ${column}`)]),
        ),
        fields,
        number,
        templated,
      );
      yield carryFields && carry !== undefined ? { ...given, carry } : given;
    }
  }
}

function columnsOf(batch: ArrowBatch, name: string): readonly (readonly [column: string, vector: ArrowVector])[] {
  const { numRows, schema, getChildAt } = membersOf(batch);
  const { fields } = membersOf(schema);
  if (!Number.isSafeInteger(numRows) || !Array.isArray(fields) || typeof getChildAt !== 'function') {
    throw new JobFileError(
      name,
      `found ${found(batch)}, expected a record batch of apache-arrow (of a table: its batches)`,
    );
  }
  return batch.schema.fields.map((field, at) => [field.name, batch.getChildAt(at) as ArrowVector] as const);
}

function valueOf(vector: ArrowVector, row: number, where: string): unknown {
  try {
    return arrowValue(vector, row);
  } catch (error) {
    throw new JobFileError(where, error instanceof Error ? error.message : String(error), { cause: error });
  }
}

function listed(names: readonly string[]): string {
  return names
    .slice(0, 20)
    .map((name) => found(name))
    .join(', ');
}
