import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';

/** Where a process's number means anything: the kernel's boot and the namespace of numbers, or the host. */
export function machineName(): string {
  try {
    return `${readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()} ${readlinkSync('/proc/self/ns/pid')}`;
  } catch {
    return hostname();
  }
}

/**
 * Tells whether a process of this machine runs. One that has ended, and that its parent has not asked after yet, does
 * not.
 */
export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    // EPERM: it is there, and somebody else's. (Told by shape: errors may come from another realm.)
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false;
  }
  const state = fieldsOf(pid)?.[0];
  return state !== 'Z' && state !== 'X';
}

/**
 * When a process started, in the kernel's ticks, which tells it from a later one of the same number. Undefined where it
 * does not run, and where the system does not say.
 */
export function startOf(pid: number): string | undefined {
  return fieldsOf(pid)?.[19];
}

/**
 * Reads the fields of /proc/PID/stat from the state on, which stands after the process's name; that may hold blanks and
 * brackets.
 */
function fieldsOf(pid: number): string[] | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  } catch {
    return undefined;
  }
}
