import { found } from '../../arguments/found.js';
import { JobFileError } from '../../errors/JobFileError.js';
import { UsageError } from '../../errors/UsageError.js';
import { BEGIN_ANEW } from '../../files/fileErrors.js';
import { type NamedFile, realPathOf } from '../../files/realPath.js';
import { readRegularStart } from '../../files/specialFiles.js';

// Names that belong to an output. They are made of the place that its path leads to, so that all names of one file have
// the same.

/** Says what the run that began the output was; it stays beside it. */
export function recordPath(output: string): string {
  return `${output}.job.json`;
}

/** There while the job runs. */
export function lockPath(output: string): string {
  return `${output}.lock`;
}

/** The output as it is written anew (without its error rows, or in order), until it takes the place of the output. */
export function rewritePath(output: string): string {
  return `${output}.retry.tmp`;
}

/** Where results are kept, one JSON object a line, for an output that is written as a whole at the end. */
export function journalPath(output: string): string {
  return `${output}.rows.jsonl`;
}

/** Files that a job writes, as its options have them. */
export interface JobOutputPaths {
  readonly output?: string | undefined;
  readonly errors?: string | undefined;
}

/**
 * All that a job writes, and what another run into the same output may have left: what nothing else may be written
 * over, and what belongs together when an output is moved.
 * @param names what the user calls the two
 */
export async function jobOutputFiles(
  { output, errors }: JobOutputPaths,
  names: Readonly<Record<keyof JobOutputPaths, string>> = { output: 'output', errors: 'errors' },
): Promise<NamedFile[]> {
  return [
    ...(output === undefined ? [] : outputFiles(names.output, await realPathOf(output))),
    ...(errors === undefined ? [] : errorFiles(names.errors, await realPathOf(errors))),
  ];
}

function outputFiles(name: string, place: string): NamedFile[] {
  const journal = journalPath(place);
  return [
    { name, path: place, written: true },
    { name: `the journal of ${name}`, path: journal, written: true },
    { name: `the temporary file of the journal of ${name}`, path: rewritePath(journal), written: true },
    { name: `the record of ${name}`, path: recordPath(place), written: true },
    { name: `the lock of ${name}`, path: lockPath(place), written: true },
    { name: `the temporary file of ${name}`, path: rewritePath(place), written: true },
  ];
}

/** Lists the files for rows that failed. */
function errorFiles(name: string, place: string): NamedFile[] {
  return [
    { name, path: place, written: true },
    { name: `the lock of ${name}`, path: lockPath(place), written: true },
  ];
}

/** As much of a file as tells whose it is. */
const START_BYTES = 256;
/** How a journal begins that is not the output itself. */
const JOURNAL_START = '{"format":"spillway-rows"';

type Judge = (start: string) => boolean;
/** A record, whatever its version, and however damaged what follows. */
const isRecord: Judge = (start) => /^\s*\{\s*"format"\s*:\s*"spillway-job"/.test(start);
/** An output, or the journal of an earlier version. */
const isRows: Judge = (start) => /^(\{"id":|$)/.test(start);
/** A journal; of one whose run was killed as it began, there may be less than its first line. */
const isJournal: Judge = (start) => isRows(start) || start.startsWith(JOURNAL_START) || JOURNAL_START.startsWith(start);

/** Tells whether a journal stands beside an output. A file that is somebody else's is none. */
export function hasJournal(place: string): boolean {
  try {
    return readRegularStart(journalPath(place), START_BYTES, 'rows of output')?.startsWith(JOURNAL_START) === true;
  } catch (error) {
    if (error instanceof JobFileError) return false;
    throw error;
  }
}

/**
 * Refuses to replace files that stand where the job's own go and are somebody else's, told by how they begin. (The lock
 * is judged by whoever takes it.)
 * @param published whether the output is written as a whole at the end, from a journal
 * @throws UsageError; JobFileError for one that cannot be read, and for what is no regular file
 */
export function checkSidecars(place: string, published: boolean): void {
  if (published) {
    checkPlace(journalPath(place), isJournal, 'rows of output', place);
    checkPlace(rewritePath(journalPath(place)), isJournal, 'rows of output', place);
  }
  checkPlace(recordPath(place), isRecord, 'the record of a Spillway job', place);
  checkPlace(rewritePath(place), isRows, 'rows of output', place);
}

function checkPlace(path: string, isOurs: Judge, what: string, output: string): void {
  const start = readRegularStart(path, START_BYTES, what);
  if (start === undefined || isOurs(start)) return;
  throw new UsageError(
    `${path}: found ${found(start)}, expected no file or ${what}, which the job of ${output} keeps there; ` +
      `move the file away, or give another output (an output that has lost its record cannot be resumed: ${BEGIN_ANEW})`,
  );
}
