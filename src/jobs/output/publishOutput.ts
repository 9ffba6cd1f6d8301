import type { ResultLine } from '../formats/formatResult.js';
import type { RowInput } from '../../Row.js';
import type { WriteOptions } from '../formats/RowFormat.js';
import type { JobInput } from '../input/JobInput.js';
import { carriesInto, type FileFormat, isExact, type JobFormats } from '../jobFormats.js';
import { carriedTable, publishResults, type ResultLines } from './publishResults.js';

/** What a job's results become. */
export interface OutputFiles {
  readonly results: ResultLines;
  readonly path: string;
  /** Where rows that failed go; undefined where they go into the output. */
  readonly errors: string | undefined;
  readonly formats: JobFormats;
  /** Where columns come from that go with results; undefined where results have them. */
  readonly input: JobInput | undefined;
  readonly options: WriteOptions;
}

/** Writes the output, and what failed, from results. @throws JobFileError; what stood there is then as it was */
export async function publishOutput({ results, path, errors, formats, input, options }: OutputFiles): Promise<void> {
  const { output, errors: failures } = formats;
  const tables = [output, failures].some((file) => file?.format.carries === true);
  const table = tables && input?.table === undefined ? await carriedTable(results) : undefined;
  const write = (place: string, file: FileFormat, wanted: (result: ResultLine) => boolean): Promise<void> => {
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
  await write(path, output, ({ error }) => errors === undefined || error === undefined);
  if (errors !== undefined && failures !== undefined) await write(errors, failures, ({ error }) => error !== undefined);
}
