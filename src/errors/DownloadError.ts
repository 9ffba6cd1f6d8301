import { ModelFileError } from './ModelFileError.js';

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
