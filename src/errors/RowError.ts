import { SpillwayError } from './SpillwayError.js';

/** Why a row was refused; stable, for programs. */
export type RowErrorCode =
  | 'invalid-json'
  | 'invalid-row' // not an object, or a field of the wrong type
  | 'no-prompt' // none of prompt, messages, tokens; or more than one of them
  | 'missing-field' // the prompt's template asks for a field that the row does not have
  | 'empty-prompt' // nothing to start from: no tokens, and the model has no begin token
  | 'token-out-of-range'
  | 'too-long' // prompt and new tokens exceed the model's context
  | 'invalid-parameter' // a sampling parameter or stop string out of range
  | 'duplicate-id'
  | 'chat-template' // the model has no chat template, or the template refused the messages
  | 'numeric' // the model's logits for the row are not finite
  | 'schema' // its answer was cut off before it satisfied its `responseFormat`, or does not
  | 'unsupported-content' // a message has a picture, a sound, a video or a file
  | 'unsupported-schema' // its `responseFormat` cannot be held to: a keyword that is not enforced, say
  | 'timeout' // it has taken longer than rows may
  | 'limit' // what the model's tokenizer makes of the row, or of its answer, takes more time or room than it may
  | 'crash' // workers of a queue ended while they had it
  | 'memory' // the row alone needs more KV cache than the run has
  | 'cancelled' // its batch was cancelled before it was computed (`serve`)
  | 'expired'; // its batch was given so much time, and it was not computed by then (`serve`)

/** One row cannot be processed. It becomes a row of output with `finishReason: 'error'`; the job goes on. */
export class RowError extends SpillwayError {
  readonly code = 'row';

  constructor(
    readonly rowCode: RowErrorCode,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

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
