// What a figure was measured on, and what else the machine did meanwhile.
import { readFileSync } from 'node:fs';
import { cpus, release, totalmem } from 'node:os';

/** A run during which others took more than this share of the machine is marked as disturbed. */
export const QUIET = 0.02;

/** Busy and total time of the whole machine so far, in seconds; undefined where the system does not tell. */
export function machineSeconds() {
  try {
    const [line] = readFileSync('/proc/stat', 'utf8').split('\n');
    const fields = line.trim().split(/\s+/).slice(1, 9).map(Number);
    const total = fields.reduce((sum, ticks) => sum + ticks, 0);
    return { busy: (total - fields[3] - fields[4]) / 100, total: total / 100 };
  } catch {
    return undefined;
  }
}

/** Processor seconds of the children of this process that have ended and been waited for; undefined where the system does not tell. */
export function endedChildrenSeconds() {
  try {
    const stat = readFileSync('/proc/self/stat', 'utf8');
    // The name in parentheses may hold blanks; fields 16 and 17 of proc(5) are the children's user and system ticks.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return (Number(fields[13]) + Number(fields[14])) / 100;
  } catch {
    return undefined;
  }
}

export function describeMachine(threads) {
  return {
    processor: cpus()[0]?.model.trim() ?? 'unknown',
    processors: cpus().length,
    threads,
    memoryBytes: totalmem(),
    system: `${process.platform} ${release()} ${process.arch}`,
    node: process.versions.node,
  };
}

export function machineInWords(machine) {
  const memory = `${Math.round(machine.memoryBytes / 2 ** 20)} MiB`;
  return `${machine.processor}, ${machine.threads} of ${machine.processors} threads, ${memory}, ${machine.system}, node ${machine.node}`;
}
