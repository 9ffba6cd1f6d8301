import { SpillwayError } from './SpillwayError.js';

/**
 * The engine of the layers before or after failed, went away, or sent what does not fit. The run ends; rows that were
 * finished are unaffected.
 */
export class PeerError extends SpillwayError {
  readonly code = 'peer';
}
