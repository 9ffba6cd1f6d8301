import { isObject } from '../arguments/isObject.js';
import { readOrdinary } from './readOrdinary.js';

/** Where the results of a run are, one JSON object a line. */
export interface Journal {
  readonly path: string;
  /**
   * The run that it belongs to, which its first line names; undefined where it is the output itself, which has no such
   * line.
   */
  readonly run: string | undefined;
}

/** A first line is far shorter. */
const MOST_BYTES = 1024;

/** The first line of a journal beside its output: whatever lies there otherwise is of another run. */
export function journalHeader(run: string): string {
  return `${JSON.stringify({ format: 'spillway-rows', run })}\n`;
}

/**
 * The run that a file says that it is a journal of; undefined for one that says none. @throws JobFileError for what is
 * no regular file
 */
export function runOfJournal(path: string): string | undefined {
  const [line] = (readOrdinary(path, MOST_BYTES, 'rows of output') ?? '').split('\n', 1);
  try {
    const value: unknown = JSON.parse(line ?? '');
    return isObject(value) && value['format'] === 'spillway-rows' && typeof value['run'] === 'string'
      ? value['run']
      : undefined;
  } catch {
    return undefined;
  }
}
