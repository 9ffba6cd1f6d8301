import { readFileSync, writeFileSync } from 'node:fs';

/** Forgets what this process had resident at most; where there is no /proc nothing is forgotten. */
export function resetPeak(): void {
  try {
    writeFileSync('/proc/self/clear_refs', '5');
  } catch {
    // Then the peak is that of the whole process: still a bound.
  }
}

/** Bytes that this process has had resident at most since then. */
export function peakBytes(): number {
  try {
    return 1024 * Number(/VmHWM:\s+(\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))?.[1]);
  } catch {
    return process.resourceUsage().maxRSS * 1024;
  }
}
