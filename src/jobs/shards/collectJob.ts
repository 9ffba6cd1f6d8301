import { stat } from 'node:fs/promises';
import { checkMembers, type Check } from '../../arguments/checkMembers.js';
import { checkBoolean, checkSignal, checkText } from '../../arguments/checks.js';
import { found } from '../../arguments/found.js';
import { object, text } from '../../arguments/memberChecks.js';
import { InterruptedError } from '../../errors/InterruptedError.js';
import { JobFileError } from '../../errors/JobFileError.js';
import { UsageError } from '../../errors/UsageError.js';
import { modeOf } from '../../files/atomicFile.js';
import { acquireFileLock, type FileLock, releaseLocks } from '../../files/fileLock.js';
import { checkDistinctFiles, type NamedFile, realPathOf } from '../../files/realPath.js';
import { specialKind } from '../../files/specialFiles.js';
import type { WriteOptions } from '../formats/RowFormat.js';
import { checkFormat, type FormatChoice, isFormatName } from '../formats/rowFormats.js';
import { type InputPaths, inputFiles, isInputPaths } from '../input/inputFiles.js';
import { JobInput } from '../input/JobInput.js';
import { checkJobFiles } from '../jobFiles.js';
import { carriesInto, checkAnswerFormat, jobFormats, type JobFormats } from '../jobFormats.js';
import type { JournalLine } from '../output/Journal.js';
import { publishOutput } from '../output/publishOutput.js';
import { putInPlace, type ResultLines } from '../output/publishResults.js';
import { jobOutputFiles, lockPath, recordPath } from '../output/sidecarFiles.js';
import { filesOf } from '../record/fingerprint.js';
import { differencesOf } from '../record/jobRecord.js';
import { type ChunkOptions, severalAnswers } from '../../rows/chunks.js';
import { checkParts, type WholeParts } from './checkParts.js';
import { queuedParts } from '../work/queuedParts.js';
import type { WorkSource } from '../work/WorkSource.js';
import { findParts } from './findParts.js';
import { PartReader, readPart } from './Part.js';
import { shardOfRow } from './Shard.js';

export interface CollectJobOptions {
  /** The output of all shards. */
  readonly output: string;
  /**
   * The parts, in any order: paths, or patterns such as `parts/*.csv`. Default: those that stand beside `output` and
   * are called as `shardPath` says. With `source`: the folder where the workers' parts are, as this machine sees it;
   * default: what the job says.
   */
  readonly parts?: InputPaths;
  /** The queue whose workers have left the parts (`runWork`), as it says which ones count. */
  readonly source?: WorkSource;
  /**
   * The input of the shards, where something of it goes into the output: from table to table all columns, from requests
   * of OpenAI's Batch API to answers what was asked. Of other outputs it is not needed; where it is given, it is
   * compared with what the shards read.
   */
  readonly input?: InputPaths;
  /** Where that is no format's name: the one that the shards were given. */
  readonly inputFormat?: FormatChoice;
  /** Default `auto`: what the output's name says. */
  readonly outputFormat?: FormatChoice;
  /** Where rows that failed go. Default: into the output. */
  readonly errors?: string;
  /** Replace an output that exists. Default false: it is refused. */
  readonly overwrite?: boolean;
  readonly signal?: AbortSignal;
}

export interface CollectSummary {
  readonly shards: number;
  /** Rows of the input. */
  readonly rows: number;
  /** Results: one a row, or one a sample. */
  readonly results: number;
  /** The results with an error. */
  readonly failed: number;
}

const CHECKS: Readonly<Record<keyof CollectJobOptions, Check>> = {
  output: text("a file's path"),
  parts: checkPaths,
  source: object,
  input: checkPaths,
  inputFormat: checkFormat,
  outputFormat: checkFormat,
  errors: text("a file's path"),
  overwrite: checkBoolean,
  signal: checkSignal,
};

/** Parts are read so many bytes at a time, all together. */
const READ_BYTES = 32 * 2 ** 20;
const PIECE_BYTES = { least: 4096, most: 2 ** 18 };

/**
 * Makes one output of the parts that shards of a job have left: byte for byte what one run over all rows would have
 * written, in the order of the input. Looks first whether all shards are there, whole, and of one job (input, model,
 * options, instruction set). The output takes its place as a whole; of each part one piece is held.
 * @throws UsageError for a wrong argument and an output that exists; JobFileError naming the shards that are missing,
 * not complete, given up, or another job's, and for parts that are not what the shards left; QueueError;
 * InterruptedError
 * @example
 * await collectJob({ output: 'answers.csv', input: 'questions.csv' });
 */
export async function collectJob(given: CollectJobOptions): Promise<CollectSummary> {
  checkMembers('options', given, CHECKS);
  const options = given.source === undefined ? given : { ...given, ...(await queuedParts(given.source, given)) };
  const { output, errors, overwrite = false, signal } = options;
  checkText('output', output, "a file's path");
  await checkOutputs(options);
  const files: readonly NamedFile[] = [
    { name: 'output', path: output, written: true },
    ...(await jobOutputFiles({ errors })),
    ...(options.input === undefined ? [] : await inputFiles(options.input)).map((path) => ({
      name: 'input',
      path,
      written: false,
    })),
  ];
  await checkDistinctFiles(files);
  const locks: FileLock[] = [];
  try {
    for (const path of [output, ...(errors === undefined ? [] : [errors])])
      locks.push(await acquireFileLock(lockPath(await realPathOf(path)), path, { signal }));
    // Again, as another process may have been at work until we had the lock.
    if (!overwrite) await checkOutputs(options);
    return await collect(options, files);
  } finally {
    releaseLocks(locks);
  }
}

/** With the input that a queue tells of, which is read where it is needed. */
type CollectOptions = CollectJobOptions & { readonly queuedInput?: readonly string[] };

/** @param files that are written, and those that were named as input */
async function collect(options: CollectOptions, files: readonly NamedFile[]): Promise<CollectSummary> {
  const { output, errors, signal } = options;
  const paths = await (options.parts === undefined ? findParts(output) : inputFiles(options.parts));
  const parts = checkParts(output, await Promise.all(paths.map(readPart)));
  await checkDistinctFiles([
    ...parts.flatMap(({ path, journal }) => [
      { name: `the part ${path}`, path: journal.path, written: false },
      { name: `the record of the part ${path}`, path: recordPath(path), written: false },
    ]),
    ...files,
  ]);
  const [{ record, complete, journal }] = parts;
  const toldChunks = record.options as ChunkOptions & { readonly merge?: string };
  const formatsOf = (input: InputPaths): Promise<JobFormats> =>
    jobFormats({
      input,
      ...inputFormatOf(options, record.options['inputFormat']),
      output,
      generate: toldChunks,
      ...(options.outputFormat !== undefined && { outputFormat: options.outputFormat }),
      ...(errors !== undefined && { errors }),
    });
  let formats = await formatsOf(options.input ?? []);
  let given = options.input;
  if (given === undefined && options.queuedInput !== undefined && carrier(formats) !== undefined) {
    given = options.queuedInput;
    formats = await formatsOf(given);
  }
  checkAnswerFormat(complete.written.task ?? 'generate', formats, severalAnswers(record.options));
  const input = await openInput({ ...options, ...(given && { input: given }) }, formats, parts);
  const counts = { results: 0, failed: 0 };
  const results: ResultLines = {
    name: 'the parts',
    kept: 'all results are safe in the parts',
    mode: await modeOf(journal.path),
    lines: () => linesOf(parts, counts, signal),
  };
  const written: WriteOptions = { ...complete.written, table: () => input?.table ?? complete.table, name: output };
  if (formats.published) await publishOutput({ results, path: output, errors, formats, input, options: written });
  else await putInPlace(output, asTheyStand(results), results);
  return { shards: parts.length, rows: complete.rows, ...counts };
}

/** Lines of JSON are put together as they stand. */
async function* asTheyStand(results: ResultLines): AsyncGenerator<Buffer, void, undefined> {
  for await (const { bytes } of results.lines()) {
    yield bytes;
    yield LF;
  }
}

const LF = Buffer.from('\n');

/** The results of all parts, in the order of the input. @throws JobFileError for a part that is not what was left */
async function* linesOf(
  parts: WholeParts,
  counts: { results: number; failed: number },
  signal: AbortSignal | undefined,
): AsyncGenerator<JournalLine, void, undefined> {
  const [{ complete, shard }] = parts;
  const share = Math.floor(READ_BYTES / parts.length);
  const pieceBytes = Math.min(Math.max(share, PIECE_BYTES.least), PIECE_BYTES.most);
  const readers = parts.map((part) => new PartReader(part, pieceBytes));
  [counts.results, counts.failed] = [0, 0];
  try {
    for (let row = 0; row < complete.rows; row += 1) {
      if (signal?.aborted === true) throw new InterruptedError(signal.reason);
      const reader = readers[shardOfRow(row, shard)];
      for await (const line of reader?.resultsOf(row) ?? []) {
        counts.results += 1;
        if (line.failed) counts.failed += 1;
        yield line;
      }
    }
    for (const reader of readers) await reader.end();
  } finally {
    for (const reader of readers) await reader[Symbol.asyncDispose]();
  }
}

/** The input, where columns of it go into the output. @throws JobFileError for one that the shards did not read */
async function openInput(
  { input, output, signal }: CollectJobOptions,
  formats: JobFormats,
  [{ record, path, complete }]: WholeParts,
): Promise<JobInput | undefined> {
  const again = filesOf(record.input) !== undefined;
  if (input === undefined) {
    const table = again ? carrier(formats) : undefined;
    if (table === undefined) return undefined;
    throw new UsageError(
      `input: found none, expected the input of the shards, as ${table.format.name} has what stands in it beside the results`,
    );
  }
  if (!again)
    throw new UsageError(
      `input: found ${found(input)}, expected none: the shards read a stream, and all of it that is needed is in the parts`,
    );
  const { columns, delimiter, promptTemplate } = record.options as {
    readonly columns?: Readonly<Record<string, string>>;
    readonly delimiter?: string;
    readonly promptTemplate?: string;
  };
  const state = await checkJobFiles({ input: formats.inputs.map((file) => file.path) });
  if (state.input !== 'regular')
    throw new JobFileError(
      formats.inputs[0]?.path ?? output,
      'cannot be read: it is no regular file, expected the input of the shards',
    );
  const opened = await JobInput.open(
    {
      input,
      output,
      ...(columns && { columns }),
      ...(delimiter !== undefined && { delimiter }),
      generate: { ...(promptTemplate !== undefined && { promptTemplate }), ...(signal && { signal }) },
    },
    complete.written.task ?? 'generate',
    formats,
    state.input,
  );
  const now = { ...record, input: opened.fingerprint ?? record.input };
  const [difference] = differencesOf(record, now);
  if (difference !== undefined)
    throw new JobFileError(
      formats.inputs[0]?.path ?? output,
      `cannot be put beside the results of ${path}: it differs from what the shards read in ${difference}; give what was given to them`,
    );
  return opened;
}

/** The file into which something of the input goes. */
function carrier(formats: JobFormats): JobFormats['output'] | undefined {
  return [formats.output, ...(formats.errors ? [formats.errors] : [])].find((file) => carriesInto(formats, file));
}

/** The format that the shards were told, or have found. */
function inputFormatOf({ inputFormat }: CollectJobOptions, recorded: unknown): Pick<CollectJobOptions, 'inputFormat'> {
  if (inputFormat !== undefined) return { inputFormat };
  return isFormatName(recorded) ? { inputFormat: recorded } : {};
}

/**
 * @throws UsageError for an output that is there, or that a job wrote by itself; JobFileError for what is no regular
 * file
 */
async function checkOutputs({ output, errors, overwrite = false }: CollectJobOptions): Promise<void> {
  for (const [name, path] of Object.entries({ output, errors })) {
    if (path === undefined) continue;
    const stats = await stat(path).catch(() => undefined);
    const kind = stats && specialKind(stats);
    if (path === '-' || kind !== undefined)
      throw new UsageError(
        `${name}: found ${path === '-' ? 'standard output' : `${path}, which is ${kind}`}, expected a file: it is put in place as a whole`,
      );
    if (stats !== undefined && !overwrite) throw new UsageError(`${path} exists; \`overwrite\` begins anew`);
    const record = recordPath(await realPathOf(path));
    if ((await modeOf(record)) !== undefined)
      throw new UsageError(
        `${record}: found the record of a job that writes to ${path} itself, expected none; remove it, or give another output`,
      );
  }
}

function checkPaths(name: string, value: unknown): void {
  if (!isInputPaths(value)) throw new UsageError(`${name}: found ${found(value)}, expected a file's path, or several`);
}
