import { checkMembers, type Check } from '../../arguments/checkMembers.js';
import { checkBoolean, checkFunction, checkSignal, checkText } from '../../arguments/checks.js';
import { text } from '../../arguments/memberChecks.js';
import { inTurns } from '../../collections/inTurns.js';
import { Turns } from '../../collections/Turns.js';
import { UsageError } from '../../errors/UsageError.js';
import { PARQUET_LIMITS } from '../../model/files/limits.js';
import type { BadRow, RowInput } from '../../Row.js';
import { formatBytes, parseBytes, type Size } from '../../units.js';
import { checkColumns } from '../formats/checkColumns.js';
import type { TakenColumns } from '../formats/RowFormat.js';
import { checkPromptColumn, fieldsOfTable, tableRow, takenColumns, tableRowInTurns } from '../formats/tableRow.js';
import { isPostgres } from '../database/postgresUrl.js';
import { DUCKDB_BYTES } from './duckDbLimit.js';
import { duckDbQuery } from './duckDbQuery.js';
import { MEMORY } from './duckDbRows.js';
import { postgresQuery } from './postgresQuery.js';
import type { QueryRow } from './OpenQuery.js';
import { noteDatabase, noteRead, noteTable } from './tableOfRows.js';

export interface ReadSqlOptions {
  /**
   * A file of DuckDB's, opened for reading alone, which nobody has open to write, this process neither; or
   * `postgres://…`, which is asked by a cursor within one transaction that reads. Default: a database in memory. Others
   * are attached by the statements before the query.
   */
  readonly database?: string;
  /**
   * Fields of a row by the columns that hold them. Default: `id`, `prompt`, `messages`, `tokens`, `labels` and
   * `completions` by those of the same name; parameters (`temperature`, `seed`, …) are in no column that is not named.
   */
  readonly columns?: Readonly<Record<string, string>>;
  /**
   * True if columns called `labels` and `completions` are a row's own where `columns` does not name them. Default true;
   * false is for a run that says them itself, whose rows may have columns called so that are data.
   */
  readonly ownTexts?: boolean;
  /** Keep all columns as the row's `carry`. Default false. */
  readonly carryFields?: boolean;
  /**
   * All columns are values for a `promptTemplate`: they go into a row's `fields`, and no prompt is looked for. Default
   * false.
   */
  readonly templated?: boolean;
  /** Called once, before the first row, with the columns that hold fields of a row. */
  readonly onColumns?: (columns: TakenColumns) => void;
  /**
   * Folder for what DuckDB sorts, joins and groups beyond its memory; it removes it again. Default: the user's cache
   * folder.
   */
  readonly disk?: string;
  /**
   * Memory that the process of a query of DuckDB may have, where the query itself says no `memory_limit`. Default: a
   * tenth of what is free, and at least `DUCKDB_BYTES`.
   * @throws UsageError for less than `DUCKDB_BYTES`
   */
  readonly memory?: Size;
  /** Ends a query of DuckDB at once, whatever it does: the rows end with an InterruptedError. */
  readonly signal?: AbortSignal;
}

const CHECKS: Readonly<Record<keyof ReadSqlOptions, Check>> = {
  database: text("a file's path, or postgres://HOST/DATABASE"),
  columns: checkColumns,
  ownTexts: checkBoolean,
  carryFields: checkBoolean,
  templated: checkBoolean,
  onColumns: checkFunction,
  disk: text('a folder'),
  memory: (name, value) => {
    const bytes = parseBytes(value as Size, name);
    if (bytes < DUCKDB_BYTES)
      throw new UsageError(`${name}: found ${formatBytes(bytes)}, expected at least ${formatBytes(DUCKDB_BYTES)}`);
  },
  signal: checkSignal,
};

/**
 * The rows of a query, of Postgres, or by DuckDB: its own files, and CSV, Parquet, JSON, SQLite, S3 … as its
 * extensions have them. They are read as they are wanted, and one that breaks off is an error. A job that is to be
 * resumed needs them in the same order each time: say `order by`. Where a database should not be held for as long as a
 * job takes, copy first: `create temp table asked as select …; select * from asked`. Values are as JSON holds them:
 * decimals, dates, moments and whole numbers beyond 2^53 are text.
 * A query of DuckDB runs in a process of its own. Files that its statements write are whole when all rows have come;
 * where it ends earlier, what it has committed stands in their logs, which whoever opens them next reads.
 * @param sql one query, after whatever statements it needs (`attach …; select …`); of Postgres one query alone
 * @throws UsageError at once for a wrong argument, and, while it is iterated, where the package `@duckdb/node-api`, or
 * `pg`, is not installed; JobFileError where the database fails, or there is no column of prompts
 * @example
 * await runJob({ engine, input: readSql('select id, question as prompt from faq order by id', { database: 'faq.duckdb'
 * }), output: 'answers.parquet' });
 */
export function readSql(sql: string, options: ReadSqlOptions = {}): AsyncGenerator<RowInput, void, undefined> {
  checkText('sql', sql, 'a query');
  if (sql.trim() === '') throw new UsageError('sql: found nothing, expected a query');
  checkMembers('options', options, CHECKS);
  const rows = rowsOf(sql, options, (columns) => {
    if (options.carryFields === true) noteTable(rows, { columns });
  });
  const { database = MEMORY } = options;
  if (database !== MEMORY && !isPostgres(database)) noteDatabase(rows, database);
  return noteRead(rows);
}

async function* rowsOf(
  sql: string,
  {
    database = MEMORY,
    columns,
    ownTexts,
    carryFields = false,
    templated = false,
    onColumns,
    disk,
    memory,
    signal,
  }: ReadSqlOptions,
  onHeader: (columns: readonly string[]) => void,
): AsyncGenerator<RowInput, void, undefined> {
  await using query = await (isPostgres(database)
    ? postgresQuery(sql, database)
    : duckDbQuery(sql, database, {
        disk,
        signal,
        ...(memory !== undefined && { memory: parseBytes(memory, 'memory') }),
      }));
  const { name, header } = query;
  if (!templated) checkPromptColumn(name, header, columns);
  const fields = fieldsOfTable(name, header, columns, ownTexts);
  onHeader(header);
  onColumns?.(takenColumns(fields, header, columns, ownTexts));
  const turns = new Turns();
  const all = [...header.keys()];
  let number = 0;
  for await (const chunk of query.chunks()) {
    for (const given of chunk) {
      number += 1;
      if (turns.due) await turns.give();
      const made = inTurns(given.values(all, MOST_BYTES));
      const values = made instanceof Promise ? await made : made;
      if (values === undefined) {
        yield tooLarge(await idOf(given, header, fields, number), number);
        continue;
      }
      const { carry, ...row } = await tableRowInTurns(
        Object.fromEntries(header.map((column, at) => [column, values[at]])),
        fields,
        number,
        templated,
      );
      yield carryFields && carry !== undefined ? { ...row, carry } : row;
    }
  }
}

const MOST_BYTES = PARQUET_LIMITS.rowBytes;
const MOST_ID_BYTES = 2 ** 20;

function tooLarge(identity: Pick<BadRow, 'id' | 'duplicate'>, number: number): RowInput {
  const message = `row ${number}: found values that take more than ${formatBytes(MOST_BYTES)} of memory, expected at most that`;
  return { ...identity, error: { code: 'limit', message } };
}

/** The id of a row that is not read otherwise: its number where it has none, or one that is too long itself. */
async function idOf(
  given: QueryRow,
  header: readonly string[],
  fields: ReturnType<typeof fieldsOfTable>,
  number: number,
): Promise<Pick<BadRow, 'id' | 'duplicate'>> {
  const own = fields.filter(([field]) => field === 'id');
  const columns = own.map(([, column]) => header.indexOf(column));
  const values = (await inTurns(given.values(columns, MOST_ID_BYTES))) ?? [];
  const { id, duplicate } = tableRow(
    Object.fromEntries(own.flatMap(([, column], at) => (values.length > 0 ? [[column, values[at]]] : []))),
    own,
    number,
  );
  return { id: id ?? number, ...(duplicate !== undefined && { duplicate }) };
}
