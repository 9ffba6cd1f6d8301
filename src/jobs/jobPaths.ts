import { modelSettings } from '../model/modelFiles.js';
import type { FileJobOptions } from './database/placedJob.js';
import type { JobInput } from './input/JobInput.js';
import type { JobFileOptions } from './jobFiles.js';
import type { JobFormats } from './jobFormats.js';
import type { JobTask } from './jobTask.js';
import { type JobRecord, NAMED_PARAMETERS } from './record/jobRecord.js';
import { settledShard } from './shards/Shard.js';

/** The files of a job, and what may become of those that are there. */
export async function jobPaths(options: FileJobOptions, { inputs, published }: JobFormats): Promise<JobFileOptions> {
  const { output, modelFiles = [], errors, resume = false, retryErrors = false, overwrite = false } = options;
  return {
    ...(inputs.length > 0 ? { input: inputs.map(({ path }) => path) } : {}),
    ...(typeof output === 'string'
      ? { output, modelFiles: [...modelFiles, ...(await modelSettings(modelFiles))] }
      : {}),
    resume,
    retryErrors,
    overwrite,
    published,
    ...(errors !== undefined && { errors }),
  };
}

/** Picks those of a job's options that decide what is written for a row, with defaults. */
export function settledOptions(
  options: FileJobOptions,
  task: JobTask,
  formats: JobFormats,
  opened: JobInput,
): JobRecord['options'] {
  const { columns, delimiter } = options;
  return {
    ...task.settled,
    ...options.identity,
    inputFormat: formats.input.format.name,
    carryFields: options.carryFields ?? false,
    ...(opened.hadParameters && NAMED_PARAMETERS),
    ...(columns && { columns: Object.fromEntries(Object.entries(columns).sort()) }),
    ...(delimiter !== undefined && { delimiter }),
    ...(options.shard && { shard: settledShard(options.shard) }),
  };
}
