import { JobFileError } from '../../errors/JobFileError.js';
import type { RowInput } from '../../Row.js';
import type { RowFormat, WriteOptions } from '../formats/RowFormat.js';
import type { JobInput } from '../input/JobInput.js';
import { carriesInto, type FileFormat, isExact, type JobFormats } from '../jobFormats.js';
import type { ResultLine } from '../formats/formatResult.js';
import type { Journal } from './Journal.js';
import { carriedTable, journalResults, type Publication, publishResults, type ResultLines } from './publishResults.js';

/** The files that a job's results become. */
export interface OutputFiles {
  readonly results: ResultLines;
  readonly path: string;
  /** Where rows that failed go; undefined where they go into the output. */
  readonly errors: string | undefined;
  readonly formats: JobFormats;
  /** Where columns come from that go with results; undefined where results have them. */
  readonly input: JobInput | undefined;
  readonly options: WriteOptions;
  /**
   * For results that have gone to a table: gives what each is where rows go that failed, an error where the table had
   * no place for it. Nothing else is written.
   */
  readonly refusedBy?: (result: ResultLine) => ResultLine;
}

/** Writes the output, and what failed, from results. @throws JobFileError; what stood there is then as it was */
export async function publishOutput({
  results,
  path,
  errors,
  formats,
  input,
  options,
  refusedBy,
}: OutputFiles): Promise<void> {
  const { output, errors: failures } = formats;
  const tables = [output, failures].some((file) => file?.format.carries === true);
  const table = tables && input?.table === undefined ? await carriedTable(results, options.table()) : undefined;
  const write = (place: string, file: FileFormat, wanted: Publication['wanted']): Promise<void> => {
    const rows: AsyncIterable<RowInput> | Iterable<RowInput> | undefined =
      input !== undefined && carriesInto(formats, file) ? input.read(true, isExact(formats, file)) : undefined;
    return publishResults({
      results,
      path: place,
      file,
      options: { ...options, ...(place === errors && { name: place }), ...(table && { table: () => table }) },
      wanted,
      ...(rows && { rows }),
    });
  };
  if (errors === undefined || failures === undefined) {
    if (refusedBy === undefined) await write(path, output, (row) => row);
    return;
  }
  const failed = failedBy(output.format);
  if (refusedBy !== undefined) return write(errors, failures, (row) => failed(row.map(refusedBy)));
  await write(path, output, (row) => {
    if (output.format.byPlace === true) return row;
    const gone = new Set(failed(row));
    return row.filter((result) => !gone.has(result));
  });
  await write(errors, failures, failed);
}

/**
 * The same from a journal in which so many results stand. @throws JobFileError, which says where those are that cannot
 * be written; InterruptedError once the signal fires: what stood there is as it was, and the journal has all results
 */
export async function publishJournal(
  journal: Journal,
  results: number,
  signal: AbortSignal | undefined,
  files: Omit<OutputFiles, 'results'>,
): Promise<void> {
  try {
    await publishOutput({ ...files, results: await journalResults(journal, signal) });
  } catch (error) {
    if (!(error instanceof JobFileError) || ![files.path, files.errors].includes(error.file)) throw error;
    const reason = error.message.slice(error.file.length + 2);
    throw new JobFileError(
      error.file,
      `${reason}; all ${results} results stand in ${journal.path}, and \`resume\` writes them`,
      { cause: error },
    );
  }
}

/** Which results of a row go where those do that failed: all of a row that has one line. */
function failedBy({ joinsSamples = false }: RowFormat): Publication['wanted'] {
  return (row) => {
    const failed = row.filter(({ error }) => error !== undefined);
    return joinsSamples && failed.length > 0 ? row : failed;
  };
}
