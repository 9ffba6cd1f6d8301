import { DatabaseError } from '../errors/DatabaseError.js';
import { JobFileError } from '../errors/JobFileError.js';

/** Tells whether an error is one of the files or the database of a job: it counts also where the run was aborted. */
export function isOfFiles(error: unknown): boolean {
  return error instanceof JobFileError || error instanceof DatabaseError;
}

/**
 * The reason why a run of a job ended: what writing threw, else what the input threw (the engine may have wrapped it),
 * else what the engine threw.
 */
export function jobFailure(error: unknown, ofInput: unknown): unknown {
  return isOfFiles(error) ? error : (ofInput ?? error);
}
