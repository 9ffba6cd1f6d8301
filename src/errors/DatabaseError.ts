import { SpillwayError } from './SpillwayError.js';

/**
 * The database that results go to cannot be reached, is full, or has no place for them. What it holds is whole, all
 * results that were finished stand in the journal, and `resume` goes on.
 */
export class DatabaseError extends SpillwayError {
  readonly code = 'database';

  /** @param database what it is called, without credentials */
  constructor(
    readonly database: string,
    reason: string,
    options?: ErrorOptions,
  ) {
    super(`${database}: ${reason}`, options);
  }
}
