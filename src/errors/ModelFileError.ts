import { SpillwayError } from './SpillwayError.js';

/** A model file (or a folder of them) cannot be used: missing, truncated, corrupt or unsupported. */
export class ModelFileError extends SpillwayError {
  readonly code = 'model-file';

  /**
   * @param file the file or folder as the user named it, or the file inside it
   * @param field the tensor, metadata key or header field that is at fault, e.g. `tensor blk.3.attn_q.weight`
   * @param found what the file says, in words
   * @param expected what it would have to say, in words
   */
  constructor(
    readonly file: string,
    readonly field: string,
    readonly found: string,
    readonly expected: string,
    options?: ErrorOptions,
  ) {
    super(`${file}: ${field}: found ${found}, expected ${expected}`, options);
  }
}
