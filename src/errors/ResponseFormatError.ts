import { SpillwayError } from './SpillwayError.js';

/**
 * Answers cannot be held to a `responseFormat`: it is malformed, has what is not supported, is beyond a limit, or no
 * answer fulfils it.
 */
export class ResponseFormatError extends SpillwayError {
  readonly code = 'response-format';

  constructor(
    message: string,
    /** JSON pointer to the schema at fault (`''`: all of it); undefined where that is not known. */
    readonly path?: string,
    /** The keyword of JSON Schema at fault, where it is one. */
    readonly keyword?: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}
