import { existsSync } from 'node:fs';
import type { Writable } from 'node:stream';
import { UsageError } from '../../errors/UsageError.js';
import { realPathOf } from '../../files/realPath.js';
import { databaseOfRows } from '../input/tableOfRows.js';
import type { JobOptions } from '../JobOptions.js';
import { type DatabasePlace, databasePlace, databaseTable, isDatabaseOutput } from './DatabaseOutput.js';

/** As told, with the journal in place of a table of a database. */
export type FileJobOptions = JobOptions & { readonly output: string | Writable };

/** A job as one that writes a file: of a table of a database its journal. @throws UsageError, JobFileError */
export async function placedJob({
  output,
  ...options
}: JobOptions): Promise<{ readonly options: FileJobOptions; readonly place: DatabasePlace | undefined }> {
  if (!isDatabaseOutput(output)) return { options: { ...options, output }, place: undefined };
  const place = databasePlace(output);
  await checkTableJob(options, place);
  const table = { database: place.name, ...place.table };
  return {
    options: {
      ...options,
      output: place.path,
      outputFormat: databaseTable,
      identity: { ...options.identity, table },
    },
    place,
  };
}

/** @throws UsageError for what does not go with a table of a database as output */
async function checkTableJob(
  { shard, outputFormat, input }: Pick<JobOptions, 'shard' | 'outputFormat' | 'input'>,
  { path, kind, address }: DatabasePlace,
): Promise<void> {
  if (shard !== undefined)
    throw new UsageError(
      'output: found a table of a database beside a shard, whose results are a part that `collectJob` puts together, expected a file; or one job into the table',
    );
  if (outputFormat !== undefined && outputFormat !== 'auto')
    throw new UsageError('outputFormat: found it beside a table of a database, expected none: it has no bytes');
  if (existsSync(path))
    throw new UsageError(
      `${path}: found something that is not this job's, whose journal would be called so; move it away`,
    );
  const read = typeof input === 'object' ? databaseOfRows(input) : undefined;
  if (kind === 'duckdb' && read !== undefined && (await realPathOf(read)) === (await realPathOf(address)))
    throw new UsageError(
      `output: found ${address}, which the rows are read from, expected another file: what is written while a query reads it would change what it reads`,
    );
}
