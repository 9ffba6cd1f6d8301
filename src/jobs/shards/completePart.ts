import type { WriteOptions } from '../formats/RowFormat.js';
import type { Table } from '../formats/Table.js';
import type { JobOutput } from '../output/JobOutput.js';
import { type JobRecord, writeRecord } from '../record/jobRecord.js';
import { sha256OfFile } from './sha256OfFile.js';

/**
 * Notes that a shard's part is whole, and what is to be known of it where it is put together with the others.
 * @param written.table of a stream, which cannot be read again
 */
export async function completePart(
  files: JobOutput,
  record: JobRecord,
  {
    rows,
    options: { table: _table, name: _name, ...written },
    table: stream,
  }: { readonly rows: number; readonly options: WriteOptions; readonly table: Table | undefined },
): Promise<void> {
  const sha256 = await sha256OfFile(files.journalOf(record).path);
  const { columns, dialect } = stream ?? {};
  const table = columns && { columns, ...(dialect && { dialect }) };
  await writeRecord(files.path, { ...record, complete: { rows, sha256, written, ...(table && { table }) } });
}
