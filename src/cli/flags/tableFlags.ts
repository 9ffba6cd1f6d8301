import { InvalidArgumentError, Option, type Command } from 'commander';
import {
  checkJobOptions,
  DATABASE_WAIT,
  type DatabaseOutput,
  databaseTable,
  JOB_OPTIONS,
  jobFormats,
  type GenerateOptions,
  type JobFormats,
  type JobOptions,
  type MaxErrors,
  type ReadRowsOptions,
  UsageError,
} from '../library.js';
import type { ChunkFlags } from './chunkFlags.js';
import { checkedText, columnNames, decimal, path } from './parsers.js';

/** The files of a job, and where rows that failed go. */
export interface TableFlags {
  readonly input: string;
  readonly database?: string;
  readonly output: string;
  readonly outputDatabase?: string;
  readonly outputJournal?: string;
  readonly databaseWait: number;
  readonly inputFormat: (typeof JOB_OPTIONS.formats)[number];
  readonly outputFormat: (typeof JOB_OPTIONS.formats)[number];
  readonly columns?: Readonly<Record<string, string>>;
  readonly resultColumns?: Readonly<Record<string, string>>;
  readonly resultPrefix?: string;
  readonly delimiter?: string;
  readonly errors?: string;
  readonly maxErrors?: string;
}

/** How an input begins that is a query. */
const SQL = 'sql:';

/** The help's words for the rows of a task. */
export interface RowWords {
  /** Words for `--input`. */
  readonly rows: string;
  /** Words for `--columns`. */
  readonly columns: string;
}

const PROMPTS: RowWords = { rows: 'rows with one of prompt, messages, tokens each', columns: 'prompt, id' };
/** Words for rows that are queries with the documents found for them. */
export const PAIRS: RowWords = {
  rows: 'rows with a query and its documents, or a document, each',
  columns: 'query, document, documents, id',
};

/** Files of rows and of results, as every job has them. */
export function addTableFlags(command: Command, words = PROMPTS): void {
  addInputFlags(
    command,
    '"data/*.parquet" stands for several files; - is stdin; sql:QUERY is a query',
    '<file|->',
    'necessary; results; - is stdout; sql:TABLE or sql:SCHEMA.TABLE is a table of --output-database',
    words,
  );
  command.addOption(
    new Option(
      '--database <url|file>',
      'for --input sql:QUERY: postgres://…, which is asked by a cursor, or a file of DuckDB (default: DuckDB in memory; the query may follow statements that attach others)',
    ).argParser(path),
  );
  command.addOption(
    new Option(
      '--output-database <url|file>',
      'for --output sql:TABLE: postgres://…, or a file of DuckDB (.duckdb) or SQLite (.sqlite)',
    ).argParser(path),
  );
  command.addOption(
    new Option(
      '--output-journal <path>',
      "for --output sql:TABLE: names the files that say what is done (default: beside a database's file FILE.TABLE, else TABLE.table in the working folder)",
    ).argParser(path),
  );
  command.option(
    '--database-wait <seconds>',
    'how long --output-database is waited for where it is away',
    decimal(DATABASE_WAIT),
    DATABASE_WAIT.fallback,
  );
  command.addOption(
    new Option('--output-format <format>', "auto: what the file's name says")
      .choices(JOB_OPTIONS.formats)
      .default('auto'),
  );
  command.addOption(
    new Option('--errors <file>', 'where rows that failed go (default: into the output)').argParser(path),
  );
  command.addOption(
    new Option(
      '--max-errors <n|p%>',
      'end the run, with exit code 5, when more rows fail, or a larger share (default: any may)',
    ).argParser(checkedText(checkErrors)),
  );
}

/**
 * Where rows are, and how they are read.
 * @param others what else may be given as input
 * @param outputs what may be given as output, in words
 */
export function addInputFlags(
  command: Command,
  others = '"data/*.parquet" stands for several files',
  argument = '<file>',
  output = 'necessary; what is to be collected',
  { rows, columns: fields } = PROMPTS,
): void {
  command.addOption(
    new Option(`--input ${argument}`, `necessary; ${rows}, as lines of JSON or as a table; ${others}`).argParser(path),
  );
  command.addOption(new Option(`--output ${argument}`, output).argParser(argument === '<file>' ? file : path));
  command.addOption(
    new Option(
      '--input-format <format>',
      "auto: what the file's name says, then its first bytes; text: each line is a prompt",
    )
      .choices(JOB_OPTIONS.formats)
      .default('auto'),
  );
  command.addOption(
    new Option(
      '--columns <field=column,…>',
      `which columns hold ${fields}, or a parameter such as temperature (default: those called so; of a table no parameters)`,
    ).argParser(columnNames((columns) => checkJobOptions({ columns }))),
  );
  command.addOption(
    new Option(
      '--result-columns <name=column,…>',
      'other names for columns of results: text, finish_reason, a property of a JSON Schema, … (default: none)',
    ).argParser(columnNames()),
  );
  command.option(
    '--result-prefix <prefix>',
    'goes before the names of all columns of results that --result-columns does not name (default: nothing)',
  );
  command.addOption(
    new Option(
      '--delimiter <character>',
      'between the values of CSV (default: what the header of the input says)',
    ).argParser(checkedText((delimiter) => checkJobOptions({ delimiter }))),
  );
}

/** An output that is put together of parts. */
function file(text: string): string {
  if (queryOf(text) !== undefined)
    throw new InvalidArgumentError('Expected a file: a table of a database is for the command that answers the rows.');
  return path(text);
}

function checkErrors(text: string): void {
  // However it is written, a number that is too large is told so.
  checkJobOptions({ maxErrors: Number(text) > Number.MAX_SAFE_INTEGER ? Number(text) : errorsOf(text) });
}

/** Digits are a count; what else there is the library judges. */
function errorsOf(text: string): MaxErrors {
  return /^\d+$/.test(text) ? Number(text) : (text as MaxErrors);
}

/** Gives what a job is told of its files. */
export function tableOptions(
  flags: TableFlags,
): Pick<TableFlags, 'inputFormat' | 'outputFormat'> &
  Pick<JobOptions, 'columns' | 'resultColumns' | 'resultPrefix' | 'delimiter' | 'errors' | 'maxErrors'> {
  const { inputFormat, outputFormat, columns, resultColumns, resultPrefix, delimiter, errors, maxErrors } = flags;
  return {
    inputFormat,
    outputFormat,
    ...(columns && { columns }),
    ...(resultColumns && { resultColumns }),
    ...(resultPrefix !== undefined && { resultPrefix }),
    ...(delimiter !== undefined && { delimiter }),
    ...(errors !== undefined && { errors }),
    ...(maxErrors !== undefined && { maxErrors: errorsOf(maxErrors) }),
  };
}

/** The query that an input is; undefined for others. */
export function queryOf(input: string): string | undefined {
  return input.startsWith(SQL) ? input.slice(SQL.length) : undefined;
}

/**
 * The table that an output is; undefined for others.
 * @throws UsageError for one without its database, and for a database without a table
 */
export function tableOf(
  {
    output,
    outputDatabase: database,
    outputJournal: journal,
    databaseWait,
    shard,
  }: Pick<TableFlags, 'output' | 'outputDatabase' | 'outputJournal' | 'databaseWait'> & { readonly shard?: string },
  onNotice: (words: string) => void,
): DatabaseOutput | undefined {
  const table = queryOf(output);
  if (table === undefined && (database ?? journal) !== undefined)
    throw new UsageError(
      `found ${database === undefined ? '--output-journal' : '--output-database'} beside an output that is no table, expected sql:TABLE as --output`,
    );
  if (table === undefined) return undefined;
  if (database === undefined)
    throw new UsageError(
      `--output: found ${output} without a database, expected --output-database with postgres://…, or with a file of DuckDB or SQLite`,
    );
  if (shard !== undefined)
    throw new UsageError(
      `--shard: found it beside ${output}, expected a file, of which \`job collect\` makes one; or one job into the table`,
    );
  return { table, database, ...(journal !== undefined && { journal }), waitSeconds: databaseWait, onNotice };
}

/** Tells whether rows are no file's, and come once. */
export function comesOnce(input: string): boolean {
  return input === '-' || queryOf(input) !== undefined;
}

/** @param table where results go to one */
export function jobFormatsOf(flags: TableFlags & ChunkFlags, table?: DatabaseOutput): Promise<JobFormats> {
  const { input, output, inputFormat, outputFormat, errors, delimiter, chunkTokens, merge } = flags;
  return jobFormats({
    input: comesOnce(input) ? [] : input,
    output: output === '-' ? process.stdout : output,
    inputFormat,
    outputFormat: table === undefined ? outputFormat : databaseTable,
    ...(errors !== undefined && { errors }),
    ...(delimiter !== undefined && { delimiter }),
    generate: { ...(chunkTokens !== undefined && { chunkTokens }), ...(merge !== undefined && { merge }) },
  });
}

/** How an input is read by itself. */
export function readOptions(
  { inputFormat, columns, delimiter }: TableFlags,
  { promptTemplate }: GenerateOptions,
  told: Pick<ReadRowsOptions, 'task' | 'ownTexts'>,
): ReadRowsOptions {
  return {
    format: inputFormat,
    ...told,
    templated: promptTemplate !== undefined,
    ...(columns && { columns }),
    ...(delimiter !== undefined && { delimiter }),
  };
}
