// What the benchmarks measure with: runs as processes of their own, how busy the rest of the machine was meanwhile, medians.
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { cpus, release, totalmem } from 'node:os';
import { promisify } from 'node:util';

/** A run during which others took more than this share of the machine is marked. */
export const QUIET = 0.02;

/** Busy and total time of the whole machine so far, in seconds; undefined where the system does not tell. */
function machineSeconds() {
  try {
    const [line] = readFileSync('/proc/stat', 'utf8').split('\n');
    const fields = line.trim().split(/\s+/).slice(1, 9).map(Number);
    const total = fields.reduce((sum, ticks) => sum + ticks, 0);
    return { busy: (total - fields[3] - fields[4]) / 100, total: total / 100 };
  } catch {
    return undefined;
  }
}

/**
 * Runs a file in a process of its own, with the job as JSON on its command line; its last line of output is its figures, in JSON, with
 * `cpuSeconds` among them.
 * @returns the figures, and `othersShare`: what share of the machine others took meanwhile, undefined where the system does not tell
 */
export async function measured(file, job, signal) {
  const before = machineSeconds();
  const { stdout } = await promisify(execFile)(process.execPath, [file, JSON.stringify(job)], { maxBuffer: 1 << 26, signal });
  const figures = JSON.parse(stdout.trim().split('\n').at(-1));
  const after = machineSeconds();
  const others = before && after ? Math.max(0, (after.busy - before.busy - figures.cpuSeconds) / (after.total - before.total)) : undefined;
  return { ...figures, othersShare: others };
}

export function median(numbers) {
  const sorted = [...numbers].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** The machine that figures are of. */
export function machineFacts() {
  return {
    processor: cpus()[0]?.model.trim() ?? 'unknown', processors: cpus().length, memoryBytes: totalmem(),
    system: `${process.platform} ${release()} ${process.arch}`, node: process.versions.node,
  };
}
