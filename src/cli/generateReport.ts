import { formatDuration, type ProgressState } from './ProgressMeter.js';
import type { JobSummary, Progress, RunStats } from './library.js';

/**
 * What the progress bar of `generate` shows.
 * @param total rows of the input, if that is known
 * @param kept rows that an earlier run had done
 */
export function rowProgress(progress: Progress, total: number | undefined, kept: number): ProgressState {
  const { rowsDone, rowsFailed, seconds, tokensPerSecond } = progress;
  const now = rowsDone + rowsFailed;
  const parts = [`${tokensPerSecond.toFixed(0)} tokens/s`];
  if (rowsFailed > 0) parts.push(`${rowsFailed} with an error`);
  if (total !== undefined && now > 0) parts.push(`${formatDuration((seconds / now) * (total - kept - now))} left`);
  return { done: kept + now, total, words: parts.join(', ') };
}

/** The last line of `generate`: `40 rows (2 with an error), 3210 tokens in 12.3 s, 261 tokens/s`. */
export function describeRun(summary: JobSummary, stats: RunStats | undefined, seconds: number): string {
  const { done, failed, kept, keptFailed } = summary;
  const rows = `${done} ${done === 1 ? 'row' : 'rows'}${failed > 0 ? ` (${failed} with an error)` : ''}`;
  const before = kept > 0 ? `, ${kept} from before${keptFailed > 0 ? ` (${keptFailed} with an error)` : ''}` : '';
  if (stats === undefined) return `${rows}${before}, ${seconds.toFixed(1)} s`;
  const { generated } = stats.tokens;
  const load = stats.seconds.load > 0 ? ` (and ${stats.seconds.load.toFixed(1)} s to load)` : '';
  return `${rows}${before}, ${generated} tokens in ${seconds.toFixed(1)} s${load}, ${stats.tokensPerSecond.generated.toFixed(1)} tokens/s`;
}
