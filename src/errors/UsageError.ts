import { SpillwayError } from './SpillwayError.js';

/** An option or argument is wrong. Nothing was read or written. */
export class UsageError extends SpillwayError {
  readonly code = 'usage';
}
