import { SpillwayError } from './SpillwayError.js';

/**
 * A queue of work cannot be reached, or holds something else than a job's shards. What was committed is intact, and
 * workers that are started again go on.
 */
export class QueueError extends SpillwayError {
  readonly code = 'queue';

  /** @param queue what it is called, without credentials */
  constructor(
    readonly queue: string,
    reason: string,
    options?: ErrorOptions,
  ) {
    super(`${queue}: ${reason}`, options);
  }
}
