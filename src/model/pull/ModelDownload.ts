import type { KnownModel } from './knownModels.js';

/** The request to a source for one attempt at fetching a model. */
export interface DownloadRequest {
  readonly model: KnownModel;
  /**
   * Bytes of the file that are already there; a source that cannot start in the middle ignores it and says so by its
   * `offset`.
   */
  readonly offset: number;
  /**
   * An empty folder for the source's own temporary files, on the same disk as the result; removed after the attempt.
   */
  readonly workFolder: string;
  readonly signal: AbortSignal;
}

/** The file's bytes from `offset` to its end. */
export interface ModelDownload {
  readonly offset: number;
  readonly chunks: AsyncIterable<Uint8Array>;
}

/** Where a model can be fetched from. Rejects with any error if it cannot; the next source is tried then. */
export interface DownloadSource {
  /** For progress and for error messages, e.g. `Hugging Face hub`. */
  readonly name: string;
  /** False if this source does not have the model at all. */
  has(model: KnownModel): boolean;
  open(request: DownloadRequest): Promise<ModelDownload>;
}

/** How far a download is. `bytes` counts what is on disk, `totalBytes` is the whole file. */
export interface PullProgress {
  readonly model: string;
  readonly source: string;
  readonly bytes: number;
  readonly totalBytes: number;
}

const PROGRESS_SECONDS = 0.1;

/** Reports progress, not too often; the last report always. */
export function throttled(
  onProgress: ((progress: PullProgress) => void) | undefined,
  progress: () => PullProgress,
): (last: boolean) => void {
  let next = 0;
  return (last) => {
    const now = performance.now();
    if (onProgress === undefined || (!last && now < next)) return;
    next = now + PROGRESS_SECONDS * 1000;
    onProgress(progress());
  };
}
