import { readFileSync } from 'node:fs';

/**
 * The most memory that this process has had resident so far, in bytes.
 *
 * On Linux from /proc/self/status: what getrusage says (maxRSS) also counts the process that started this one, as its
 * peak survives fork and exec, so a small run that was started by a large program would look large.
 * @param readStatus reads /proc/self/status; for tests
 */
export function residentPeakBytes(readStatus: () => string = () => readFileSync('/proc/self/status', 'utf8')): number {
  try {
    const kibibytes = /^VmHWM:\s*(\d+) kB$/m.exec(readStatus())?.[1];
    if (kibibytes !== undefined) return Number(kibibytes) * 1024;
  } catch {
    // No /proc: another system, or a sandbox without it.
  }
  return process.resourceUsage().maxRSS * 1024;
}
