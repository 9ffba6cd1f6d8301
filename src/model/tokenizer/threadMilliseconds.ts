import { readFileSync } from 'node:fs';

/**
 * Processor time that this thread has had, in milliseconds, at a price of some 20 µs; undefined where the system does
 * not say (not Linux).
 */
export function threadMilliseconds(): number | undefined {
  try {
    const nanoseconds = Number.parseInt(readFileSync('/proc/thread-self/schedstat', 'latin1'), 10);
    // Kernels without these statistics say 0.
    return nanoseconds > 0 ? nanoseconds / 1e6 : undefined;
  } catch {
    return undefined;
  }
}
