import { inputFormat, outputFormat, type FileFormat } from './formats/detectFormat.js';
import { jsonl } from './formats/jsonl.js';
import type { JobOptions } from './JobOptions.js';

/** What the files of a job are, or are to be. */
export interface JobFormats {
  readonly input: FileFormat;
  readonly output: FileFormat;
  /** Of rows that failed; undefined where they go into the output. */
  readonly errors: FileFormat | undefined;
  /** Whether the output is written as a whole at the end, from a journal beside it. Plain lines of JSON are their own journal. */
  readonly published: boolean;
}

/** @throws UsageError where this Node cannot decompress, or compress, one of them */
export async function jobFormats({
  input, inputFormat: from, output, outputFormat: to, errors,
}: Pick<JobOptions, 'input' | 'inputFormat' | 'output' | 'outputFormat' | 'errors'>): Promise<JobFormats> {
  const read = await inputFormat(typeof input === 'string' ? input : undefined, from);
  const written = outputFormat(typeof output === 'string' ? output : undefined, to);
  const failed = errors === undefined ? undefined : outputFormat(errors, undefined, written.format);
  return { input: read, output: written, errors: failed, published: written.format !== jsonl || written.compression !== undefined || failed !== undefined };
}
