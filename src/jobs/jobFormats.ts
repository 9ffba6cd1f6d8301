import { stat } from 'node:fs/promises';
import { found } from '../arguments/found.js';
import { JobFileError } from '../errors/JobFileError.js';
import { UsageError } from '../errors/UsageError.js';
import { bytesOf } from '../files/fileBytes.js';
import { checkCompression, type Compression, compressionOf, decompressed } from './formats/compression.js';
import { csv, tsv } from './formats/csv.js';
import { jsonl, otherJson } from './formats/jsonl.js';
import { openaiBatch, requestsAmong } from './formats/openaiBatch.js';
import type { RowFormat } from './formats/RowFormat.js';
import {
  chosenFormat,
  endingsOf,
  type FormatChoice,
  formatOfName,
  formatOfStart,
  ROW_FORMATS,
} from './formats/rowFormats.js';
import type { JobTaskName } from '../Results.js';
import type { GenerateOptions } from '../Row.js';
import { type ChunkOptions, hasChunkRows } from '../rows/chunks.js';
import { checkUnmatched, inputFiles, isInputPaths } from './input/inputFiles.js';
import { jobOutputFiles } from './output/sidecarFiles.js';
import type { JobOptions } from './JobOptions.js';

/** A file of rows. */
export interface InputFile {
  readonly path: string;
  readonly file: FileFormat;
}

/** The formats that the files of a job have, or are to have. */
export interface JobFormats {
  readonly input: FileFormat;
  /** The files of the input, all of that format; none for rows that are no file's. */
  readonly inputs: readonly InputFile[];
  readonly output: FileFormat;
  /** The format for rows that failed; undefined where they go into the output. */
  readonly errors: FileFormat | undefined;
  /**
   * True where the output is written as a whole at the end, from a journal beside it. Plain lines of JSON are their own
   * journal, unless a row has several.
   */
  readonly published: boolean;
}

/**
 * Finds a job's files, patterns among them, and tells their formats, by names and first bytes. Nothing is written.
 * @throws UsageError where this Node cannot decompress, or compress, one of them, for inputs of several formats, for
 * names of other formats, and for a delimiter that nothing heeds; JobFileError for a pattern without files
 */
export async function jobFormats({
  input,
  inputFormat: from,
  output,
  outputFormat: to,
  errors,
  delimiter,
  generate,
  embed,
}: Pick<JobOptions, 'input' | 'inputFormat' | 'output' | 'outputFormat' | 'errors' | 'delimiter'> & {
  readonly generate?: ChunkOptions & Pick<GenerateOptions, 'merge'>;
  readonly embed?: ChunkOptions;
}): Promise<JobFormats> {
  if (isInputPaths(input))
    await checkUnmatched(
      input,
      await jobOutputFiles({ output: typeof output === 'string' ? output : undefined, errors }),
    );
  const inputs: InputFile[] = [];
  for (const path of isInputPaths(input) ? await inputFiles(input) : []) {
    const file = await inputFormat(path, from);
    if (file.format === jsonl) checkLines(path, await startOf(path, file.compression));
    inputs.push({ path, file });
  }
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
  const failed = errors === undefined ? undefined : errorsFormat(errors, written.format);
  if (delimiter !== undefined)
    checkDelimited(delimiter, read.format, [written.format, ...(failed ? [failed.format] : [])]);
  return {
    input: read,
    inputs,
    output: written,
    errors: failed,
    published:
      written.format !== jsonl ||
      written.compression !== undefined ||
      failed !== undefined ||
      hasChunkRows(generate ?? embed ?? {}),
  };
}

/**
 * Values of `tsv` have tabs between them where they are read, whatever is said; a format of the caller's own may heed
 * it.
 * @throws UsageError for a delimiter that nothing heeds
 */
function checkDelimited(delimiter: string, input: RowFormat, outputs: readonly RowFormat[]): void {
  const heeds = (format: RowFormat): boolean => format === csv || !ROW_FORMATS.includes(format);
  if (heeds(input) || (input === tsv && delimiter === '\t')) return;
  if (outputs.some((format) => heeds(format) || format === tsv)) return;
  const names = [input, ...outputs].map(({ name }) => name);
  throw new UsageError(
    `delimiter: found ${found(delimiter)} beside files of ${[...new Set(names)].join(' and ')}, expected one of csv`,
  );
}

/** The format that a file has, or is to have. */
export interface FileFormat {
  readonly format: RowFormat;
  readonly compression: Compression | undefined;
}

/** Tells whether rows go into a file of the format that they come from. */
export function isExact({ input }: JobFormats, { format }: FileFormat): boolean {
  return format === input.format;
}

/** Tells whether what stands in the input goes into a file, too. */
export function carriesInto(formats: JobFormats, file: FileFormat): boolean {
  const { carries = false } = formats.input.format;
  return (carries === true && file.format.carries === true) || (carries !== false && isExact(formats, file));
}

/** A file of JSON that is none of lines would be an error a line. @throws JobFileError */
function checkLines(path: string, start: string): void {
  const other = otherJson(start.split(/\r?\n/).find((line) => line.trim() !== '') ?? '');
  if (other !== undefined) throw new JobFileError(path, `found ${other}`);
}

/** As much of a file as says what it is. */
const START_BYTES = 2 ** 20;
const START_LINES = 20;

/**
 * Finds the format of an input. With `auto`: what its name says, else what a regular file begins with; else lines of
 * JSON. Lines of JSON may be requests of OpenAI's.
 * @param path undefined for what has no name
 * @throws UsageError where this Node cannot decompress it, or its format is not to be compressed
 */
export async function inputFormat(path: string | undefined, choice: FormatChoice | undefined): Promise<FileFormat> {
  const chosen = chosenFormat(choice);
  if (path === undefined) return { format: chosen ?? jsonl, compression: undefined };
  const { name, compression } = compressionOf(path);
  checkCompression(path, compression);
  const named = chosen ?? formatOfName(name, 'input');
  if (named !== undefined && (named !== jsonl || chosen !== undefined))
    return checked(path, { format: named, compression });
  const start = await startOf(path, compression);
  if (requestsAmong(start) === 'mixed') {
    throw new UsageError(
      `${path}: found requests of OpenAI's Batch API and other rows among its first lines, expected one kind; \`inputFormat\` says which one, ${openaiBatch.name} or ${jsonl.name}: lines of the other are error rows then`,
    );
  }
  return checked(path, { format: formatOfStart(start, named) ?? jsonl, compression });
}

/**
 * Finds the format that an output is to have. With `auto`: what its name says; else what is given, which lines of JSON
 * are a name for, too, where they are requests.
 * @throws UsageError where this Node cannot compress it
 */
export function outputFormat(
  path: string | undefined,
  choice: FormatChoice | undefined,
  otherwise: RowFormat = jsonl,
  option: 'output' | 'errors' = 'output',
): FileFormat {
  const { name, compression } = compressionOf(path ?? '');
  checkCompression(path ?? '', compression);
  const chosen = chosenFormat(choice);
  const named = chosen ?? formatOfName(name, option);
  const isRequests = chosen === undefined && named === jsonl && otherwise === openaiBatch;
  return checked(path ?? 'output', { format: named === undefined || isRequests ? otherwise : named, compression });
}

/**
 * Finds the format of a file of rows that failed: what its name says, else what the output is, if that can say what
 * failed.
 * @throws UsageError for a name of a format that cannot
 */
function errorsFormat(path: string, output: RowFormat): FileFormat {
  const file = outputFormat(path, undefined, output.byPlace === true ? jsonl : output, 'errors');
  if (file.format.byPlace !== true) return file;
  const others = ROW_FORMATS.filter(({ byPlace }) => byPlace !== true);
  throw new UsageError(
    `errors: found ${path}, which is ${file.format.name}, expected a name with ${endingsOf(others)}: a line of ${file.format.name} does not say which row failed, or why`,
  );
}

/** A file that is read from its end is not compressed as a whole: it would have to be held. */
function checked(path: string, file: FileFormat): FileFormat {
  const { format, compression } = file;
  if (format.needsFile !== true || compression === undefined) return file;
  throw new UsageError(
    `${path}: found a name of ${compression}, expected none: ${format.name} is compressed within itself`,
  );
}

/** The first lines of a regular file. What cannot be read says so later, to whoever reads all of it. */
async function startOf(path: string, compression: Compression | undefined): Promise<string> {
  const parts: Buffer[] = [];
  try {
    if (!(await stat(path)).isFile()) return '';
    let bytes = 0;
    let lines = 0;
    for await (const chunk of decompressed(bytesOf(path), compression, path)) {
      const piece = Buffer.from(chunk as Uint8Array);
      parts.push(piece);
      bytes += piece.length;
      for (let at = piece.indexOf(0x0a); at >= 0 && lines < START_LINES; at = piece.indexOf(0x0a, at + 1)) lines += 1;
      if (bytes >= START_BYTES || lines >= START_LINES) break;
    }
  } catch {
    // Nor is it known then.
  }
  const start = Buffer.concat(parts).subarray(0, START_BYTES).toString('utf8');
  return start.split('\n', START_LINES).join('\n');
}

/**
 * @param several what makes a row's answers several
 * @throws UsageError for a format that has no place for what the task answers
 */
export function checkAnswerFormat(
  task: JobTaskName,
  { output, errors }: JobFormats,
  several: 'questions' | 'chunkTokens' | undefined,
): void {
  const one = several ? [output, errors].find((file) => file?.format === openaiBatch) : undefined;
  if (one)
    throw new UsageError(
      `outputFormat: found ${one.format.name} beside ${several}, expected another: a response there has one answer`,
    );
  const holds = ({ tasks }: RowFormat): boolean => tasks?.includes(task) ?? true;
  const other = [output, errors].find((file) => file !== undefined && !holds(file.format))?.format;
  if (!other) return;
  const others = ROW_FORMATS.filter(holds).map((format) => format.name);
  throw new UsageError(
    `outputFormat: found ${other.name} for ${task}, expected ${others.slice(0, -1).join(', ')} or ${others.at(-1)}: that one has answers of ${other.tasks?.join(' and ')}`,
  );
}

/** Describes what an output is to be, where it is not what a run before wrote: `with --errors FILE`, `as csv`. */
export function describeForm(
  { errors }: Pick<JobOptions, 'errors'>,
  { output: { format, compression } }: JobFormats,
): string {
  return errors !== undefined
    ? `with \`errors\` ${errors}`
    : `as ${format.name}${compression === undefined ? '' : ` in ${compression}`}`;
}
