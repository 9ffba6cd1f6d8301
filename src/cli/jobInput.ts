import type { RowJobFlags } from './flags/rowJobFlags.js';
import { queryOf, readOptions } from './flags/tableFlags.js';
import {
  DUCKDB_BYTES,
  readRows,
  readSql,
  UsageError,
  type GenerateOptions,
  type JobFormats,
  type JobOptions,
  type ReadRowsOptions,
} from './library.js';

export type OnColumns = NonNullable<JobOptions['onColumns']>;

/** Reads the rows of an input that is a query, begun when the first is asked for. */
export function rowsOfQuery(
  { input, database, carryFields, ...flags }: RowJobFlags,
  { output }: JobFormats,
  prompts: GenerateOptions,
  told: Pick<ReadRowsOptions, 'task' | 'ownTexts'>,
  onColumns: OnColumns,
  signal: AbortSignal,
): ReturnType<typeof readSql> | undefined {
  const query = queryOf(input);
  if (query !== undefined) {
    const { columns, templated = false, ownTexts = true } = readOptions({ input, ...flags }, prompts, told);
    return readSql(query, {
      ...(database !== undefined && { database }),
      ...(columns && { columns }),
      templated,
      ownTexts,
      onColumns,
      ...(flags.disk !== undefined && { disk: flags.disk }),
      // Under a cap it has what is reserved for it.
      ...(flags.cpuMemory !== undefined && { memory: DUCKDB_BYTES }),
      signal,
      carryFields: carryFields || output.format.carries === true || flags.truth !== undefined,
    });
  }
  if (database === undefined) return undefined;
  throw new UsageError(`--database: found ${database} beside an input that is no query, expected sql:QUERY as --input`);
}

/** The input of a job: its files, or the rows of standard input. */
export function inputOf(
  { input, carryFields, ...flags }: RowJobFlags,
  { input: read, inputs, output }: JobFormats,
  prompts: GenerateOptions,
  told: Pick<ReadRowsOptions, 'task' | 'ownTexts'>,
  onColumns: OnColumns,
): JobOptions['input'] {
  if (input !== '-') return inputs.map((file) => file.path);
  // From table to table all columns, and of a request what an answer to it says.
  const { carries = false } = read.format;
  const carried = carries === 'exact' ? output.format === read.format : carries && output.format.carries === true;
  return readRows(process.stdin, {
    ...readOptions({ input, ...flags }, prompts, told),
    carryFields: carryFields || carried || flags.truth !== undefined,
    onColumns,
    name: 'standard input',
  });
}
