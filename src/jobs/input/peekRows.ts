import type { RowInput } from '../../Row.js';
import { checkTemplateFields } from '../../rows/promptTemplate.js';
import { databaseOfRows, noteDatabase, noteRead, noteTable, tableOfRows } from './tableOfRows.js';

/**
 * Rows that come once, with the first one read already: what is wrong with where they come from (a query that cannot be
 * parsed, a column that is missing) shows before anything slow is done.
 * @param promptTemplate whose fields the first row has to have
 * @returns all of the rows; whoever does not iterate them has to end `rows`
 * @throws UsageError for a template with a field that the first row does not have; whatever `rows` throws
 */
export async function peekRows(
  rows: AsyncGenerator<RowInput, void, undefined>,
  promptTemplate?: string,
): Promise<AsyncGenerator<RowInput, void, undefined>> {
  const first = await rows.next();
  if (promptTemplate !== undefined && first.done !== true && 'fields' in first.value)
    checkTemplateFields(
      promptTemplate,
      new Set(Object.keys(first.value.fields ?? {})),
      'the columns of the query do',
      true,
    );
  async function* all(): AsyncGenerator<RowInput, void, undefined> {
    if (first.done !== true) yield first.value;
    yield* rows;
  }
  const again = noteRead(all());
  const table = tableOfRows(rows);
  if (table !== undefined) noteTable(again, table);
  const database = databaseOfRows(rows);
  if (database !== undefined) noteDatabase(again, database);
  return again;
}
