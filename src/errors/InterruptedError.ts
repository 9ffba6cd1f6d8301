import { SpillwayError } from './SpillwayError.js';

/** The caller's AbortSignal fired, or the engine was closed. Rows that were finished have been delivered. */
export class InterruptedError extends SpillwayError {
  readonly code = 'interrupted';

  constructor(reason?: unknown) {
    super('the run was interrupted', { cause: reason });
  }
}
