import type { WriteOptions } from './formats/RowFormat.js';
import type { FileJobOptions } from './database/placedJob.js';
import type { JobInput } from './input/JobInput.js';
import type { JobFormats } from './jobFormats.js';
import type { JobTask } from './jobTask.js';
import { partsOf, writeOptions } from './output/writeOptions.js';

export interface WrittenJob {
  readonly options: FileJobOptions;
  readonly task: JobTask;
  readonly formats: JobFormats;
  readonly input: JobInput;
}

/**
 * How results of a job are written.
 * @param called what errors call the output, where that is not its path
 * @param keyed whether for a table of a database, whose rows have a key
 */
export function jobWriteOptions(
  { options, task: { name: task, options: told }, formats, input }: WrittenJob,
  called: string | undefined,
  keyed: boolean,
): WriteOptions {
  const { resultColumns = {}, resultPrefix, delimiter, output, carryFields = false, cascade } = options;
  // Whether the columns of the input, among which an id is, if there is one, stand in every table that is written.
  const carries =
    formats.input.format.carries === true && (input.again || carryFields || formats.output.format.carries === true);
  const there = partsOf(task, told, !carries, cascade);
  return writeOptions({ ...there, ...(keyed && { key: true, sample: true }) }, told, {
    task,
    table: () => input.table,
    name: called ?? (typeof output === 'string' ? output : 'output'),
    resultColumns,
    ...(resultPrefix !== undefined && { resultPrefix }),
    ...(delimiter !== undefined && { delimiter }),
  });
}
