import { SpillwayError } from './SpillwayError.js';

/** The native addon could not be loaded, or refused a call. */
export class NativeError extends SpillwayError {
  readonly code = 'native';
}
