import { inputFormat, outputFormat, type FileFormat } from './formats/detectFormat.js';
import { jsonl } from './formats/jsonl.js';
import { openaiBatch } from './formats/openaiBatch.js';
import { UsageError } from '../errors/UsageError.js';
import { inputFiles, isInputPaths } from './inputFiles.js';
import type { JobOptions } from './JobOptions.js';

/** A file of rows. */
export interface InputFile {
  readonly path: string;
  readonly file: FileFormat;
}

/** What the files of a job are, or are to be. */
export interface JobFormats {
  readonly input: FileFormat;
  /** The files of the input, all of that format; none for rows that are no file's. */
  readonly inputs: readonly InputFile[];
  readonly output: FileFormat;
  /** Of rows that failed; undefined where they go into the output. */
  readonly errors: FileFormat | undefined;
  /**
   * Whether the output is written as a whole at the end, from a journal beside it. Plain lines of JSON are their own
   * journal.
   */
  readonly published: boolean;
}

/**
 * @throws UsageError where this Node cannot decompress, or compress, one of them, and for inputs of several formats;
 * JobFileError for a pattern without files
 */
export async function jobFormats({
  input,
  inputFormat: from,
  output,
  outputFormat: to,
  errors,
}: Pick<JobOptions, 'input' | 'inputFormat' | 'output' | 'outputFormat' | 'errors'>): Promise<JobFormats> {
  const inputs: InputFile[] = [];
  for (const path of isInputPaths(input) ? await inputFiles(input) : [])
    inputs.push({ path, file: await inputFormat(path, from) });
  const [first] = inputs;
  const read = first?.file ?? (await inputFormat(undefined, from));
  const other = inputs.find(({ file }) => file.format !== read.format);
  if (first !== undefined && other !== undefined) {
    throw new UsageError(
      `found ${first.path}, which is ${read.format.name}, and ${other.path}, which is ${other.file.format.name}, expected inputs of one format; --input-format says which one`,
    );
  }
  const written = outputFormat(
    typeof output === 'string' ? output : undefined,
    to,
    read.format === openaiBatch ? openaiBatch : jsonl,
  );
  const failed = errors === undefined ? undefined : outputFormat(errors, undefined, written.format);
  return {
    input: read,
    inputs,
    output: written,
    errors: failed,
    published: written.format !== jsonl || written.compression !== undefined || failed !== undefined,
  };
}
