import { SpillwayError } from './SpillwayError.js';

/**
 * An input or output file of a job failed in mid-run (disk full, read error). What was finished is intact, and
 * `--resume` goes on.
 */
export class JobFileError extends SpillwayError {
  readonly code = 'job-file';

  constructor(
    readonly file: string,
    reason: string,
    options?: ErrorOptions,
  ) {
    super(`${file}: ${reason}`, options);
  }
}
