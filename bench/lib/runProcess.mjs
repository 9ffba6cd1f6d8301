// Runs one program to its end, or to a time limit, and says what it took: of processors, of memory, of the disk.
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { endedChildrenSeconds, machineSeconds } from './machine.mjs';

/**
 * The peak of resident memory and the bytes read are looked up this often; both only grow, so the last look is nearly
 * exact.
 */
const LOOK_MILLISECONDS = 100;
/** A program that is asked to end and does not is killed after this time. */
const GRACE_MILLISECONDS = 5000;
/** Of each stream, the end is kept. */
const KEPT_CHARACTERS = 2 ** 22;

function numberOf(text, pattern, factor) {
  const match = pattern.exec(text);
  return match ? Number(match[1]) * factor : 0;
}

/** Peak resident bytes, and bytes that the process has had read from disk; zeros where the system does not tell. */
function look(pid) {
  const read = (name) => {
    try {
      return readFileSync(`/proc/${pid}/${name}`, 'utf8');
    } catch {
      return '';
    }
  };
  return {
    peakResidentBytes: numberOf(read('status'), /^VmHWM:\s+(\d+) kB$/m, 1024),
    readBytes: numberOf(read('io'), /^read_bytes: (\d+)$/m, 1),
  };
}

/**
 * Only one at a time: processor time is taken from the ended children of this process.
 *
 * @param {{signal?: AbortSignal, timeLimitSeconds?: number, cgroup?: string, env?: object}} options `cgroup`: folder of
 * the group that the program is put into
 * @returns {Promise<{code: number | null, signal: string | null, timedOut: boolean, stdout: string, stderr: string,
 * wallSeconds: number,
 *   cpuSeconds: number | undefined, othersShare: number | undefined, peakResidentBytes: number, readBytes: number}>}
 *   `othersShare`: the share of the machine's processor time that everything else took meanwhile
 */
export async function runProcess(program, args, { signal, timeLimitSeconds, cgroup, env } = {}) {
  const machineBefore = machineSeconds();
  const childrenBefore = endedChildrenSeconds();
  const start = performance.now();
  // The shell joins the group before it becomes the program, so that not a byte of the program's is charged elsewhere.
  const command =
    cgroup === undefined
      ? [program, ...args]
      : ['/bin/sh', '-c', 'echo $$ > "$0/cgroup.procs" && exec "$@"', cgroup, program, ...args];
  const child = spawn(command[0], command.slice(1), {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...env },
  });
  const output = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr']) {
    child[name].setEncoding('utf8').on('data', (text) => {
      output[name] = (output[name] + text).slice(-KEPT_CHARACTERS);
    });
  }
  let seen = { peakResidentBytes: 0, readBytes: 0 };
  const looking = setInterval(() => {
    const now = look(child.pid);
    seen = {
      peakResidentBytes: Math.max(seen.peakResidentBytes, now.peakResidentBytes),
      readBytes: Math.max(seen.readBytes, now.readBytes),
    };
  }, LOOK_MILLISECONDS);
  let timedOut = false;
  let killing;
  const end = () => {
    child.kill('SIGTERM');
    killing ??= setTimeout(() => child.kill('SIGKILL'), GRACE_MILLISECONDS);
  };
  const limit =
    timeLimitSeconds === undefined
      ? undefined
      : setTimeout(() => {
          timedOut = true;
          end();
        }, timeLimitSeconds * 1000);
  if (signal?.aborted) end();
  signal?.addEventListener('abort', end);
  try {
    const { code, signal: endedBy } = await new Promise((resolve, reject) => {
      child.once('error', reject);
      child.once('close', (exitCode, exitSignal) => resolve({ code: exitCode, signal: exitSignal }));
    });
    const wallSeconds = (performance.now() - start) / 1000;
    const machineAfter = machineSeconds();
    const childrenAfter = endedChildrenSeconds();
    const cpuSeconds =
      childrenBefore === undefined || childrenAfter === undefined ? undefined : childrenAfter - childrenBefore;
    const othersShare =
      machineBefore && machineAfter && cpuSeconds !== undefined
        ? Math.max(
            0,
            (machineAfter.busy - machineBefore.busy - cpuSeconds) / (machineAfter.total - machineBefore.total),
          )
        : undefined;
    return { code, signal: endedBy, timedOut, ...output, wallSeconds, cpuSeconds, othersShare, ...seen };
  } finally {
    clearInterval(looking);
    clearTimeout(limit);
    clearTimeout(killing);
    signal?.removeEventListener('abort', end);
  }
}

/** The figures that a runner printed: its last line of standard output that is a JSON object. */
export function lastJson(stdout) {
  for (const line of stdout.trim().split('\n').reverse()) {
    if (!line.startsWith('{')) continue;
    try {
      return JSON.parse(line);
    } catch {
      continue;
    }
  }
  return undefined;
}

/** Why a run gave no figures, in words. */
export function howItEnded({ code, signal, timedOut, stderr }, timeLimitSeconds) {
  if (timedOut) return `not done after ${timeLimitSeconds} s`;
  // Of an error that Node.js shows with its stack, what it says.
  const said = /^\w*Error: .*$/m.exec(stderr)?.[0].slice(0, 400);
  const words = said ?? stderr.trim().split('\n').slice(-3).join(' / ').slice(-400);
  return `${signal === null ? `ended with ${code}` : `ended by ${signal}`}${words === '' ? '' : `: ${words}`}`;
}
