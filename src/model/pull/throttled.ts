import type { PullProgress } from './ModelDownload.js';

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
