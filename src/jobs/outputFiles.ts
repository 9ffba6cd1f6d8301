import { found } from '../arguments/found.js';
import { UsageError } from '../errors/UsageError.js';
import type { NamedFile } from './distinctFiles.js';
import { BEGIN_ANEW } from './fileErrors.js';
import { readOrdinary } from './readOrdinary.js';

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

/**
 * All that a job writes.
 * @param name what the user calls the output
 * @param published whether it is written as a whole at the end, from a journal
 */
export function outputFiles(name: string, output: string, published = false): NamedFile[] {
  const journal = journalPath(output);
  return [
    { name, path: output, written: true },
    ...(published ? [{ name: `the journal of ${name}`, path: journal, written: true }, { name: `the temporary file of the journal of ${name}`, path: rewritePath(journal), written: true }] : []),
    { name: `the record of ${name}`, path: recordPath(output), written: true },
    { name: `the lock of ${name}`, path: lockPath(output), written: true },
    { name: `the temporary file of ${name}`, path: rewritePath(output), written: true },
  ];
}

/** As much of a file as tells whose it is. */
const START_BYTES = 256;
/** How a record begins, whatever its version, and however damaged what follows. */
const RECORD_START = /^\s*\{\s*"format"\s*:\s*"spillway-job"/;
/** How an output begins. */
const ROWS_START = /^(\{"id":|$)/;

/**
 * Refuses to replace files that stand where the job's own go and are somebody else's, told by how they begin. (The lock is judged by whoever takes it.)
 * @throws UsageError; JobFileError for one that cannot be read, and for what is no regular file
 */
export function checkSidecars(output: string, published: boolean): void {
  if (published) {
    checkPlace(journalPath(output), ROWS_START, 'rows of output', output);
    checkPlace(rewritePath(journalPath(output)), ROWS_START, 'rows of output', output);
  }
  checkPlace(recordPath(output), RECORD_START, 'the record of a Spillway job', output);
  checkPlace(rewritePath(output), ROWS_START, 'rows of output', output);
}

function checkPlace(path: string, ours: RegExp, what: string, output: string): void {
  const start = readOrdinary(path, START_BYTES, what);
  if (start === undefined || ours.test(start)) return;
  throw new UsageError(
    `${path}: found ${found(start)}, expected no file or ${what}, which the job of ${output} keeps there; ` +
      `move the file away, or give another output (an output that has lost its record cannot be resumed: ${BEGIN_ANEW})`,
  );
}
