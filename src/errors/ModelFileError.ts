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

/** A hardware file or a policy file cannot be used. Its code is that of any file that cannot. */
export class PlanFileError extends ModelFileError {}

/** A known model could not be fetched from any of its sources. Its code is that of a model file that cannot be used. */
export class DownloadError extends ModelFileError {
  /**
   * @param model the model's id
   * @param failures each source that was tried, with the reason why it failed, in words
   */
  constructor(
    readonly model: string,
    readonly failures: readonly { readonly source: string; readonly reason: string }[],
    options?: ErrorOptions,
  ) {
    super(
      model,
      'download',
      failures.map(({ source, reason }) => `${source}: ${reason}`).join('; '),
      'its file from one of these sources',
      options,
    );
  }
}
