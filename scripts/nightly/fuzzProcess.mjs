// One process of the fuzzer, from its start to its end, however it comes to it.
import { fork } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';

/**
 * A small heap, so that one that grows is seen; and one thread where Node would have several, which for work as short
 * as this only costs.
 */
const FLAGS = ['--max-old-space-size=400', '--max-semi-space-size=32', '--single-threaded-gc'];
/** After so long without a word a case counts as one that hangs: more than it may take, for the machine may be busy. */
const HANG_MILLISECONDS = 120_000;

/**
 * @param copy where the sources are that it runs
 * @param task what it is to do (test/fuzz/worker.ts), with a folder of its own
 * @param onCase gets what came of each case
 * @param files a folder that gets the files of its last case, if wanted
 * @returns the process, and what ended it before its time: undefined, or the case and the reason
 */
export function fuzzProcess(copy, task, onCase, files) {
  mkdirSync(task.folder, { recursive: true });
  const worker = fork(join(copy, 'test/fuzz/worker.js'), {
    execArgv: FLAGS,
    env: { ...process.env, UV_THREADPOOL_SIZE: '1', XDG_CACHE_HOME: join(task.folder, 'cache') },
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
  });
  const current = join(task.folder, 'current.json');
  const words = [];
  let working = false;
  let hangs = false;
  let stopped = false;
  worker.stderr.on('data', (data) => words.push(data));
  worker.on('message', (message) => {
    if (message.ready) {
      worker.send(task);
      working = true;
    } else if (message.number !== undefined) onCase(message);
  });
  const watch = setInterval(() => {
    const since = statSync(current, { throwIfNoEntry: false })?.mtimeMs;
    if (since === undefined || Date.now() - since < HANG_MILLISECONDS) return;
    hangs = true;
    worker.kill('SIGKILL');
  }, 500);
  const ended = new Promise((resolve) => {
    worker.on('close', (code, signal) => {
      clearInterval(watch);
      const failed = !stopped && (hangs || code !== 0);
      const at = failed && existsSync(current) ? JSON.parse(readFileSync(current, 'utf8')) : { number: task.first - 1 };
      if (files !== undefined) cpSync(join(task.folder, 'case', 'model'), files, { recursive: true });
      rmSync(task.folder, { recursive: true, force: true });
      resolve(
        failed
          ? {
              ...at,
              finding: hangs ? 'hang' : `crash: ${signal ?? `exit code ${code}`}: ${said(words)}`,
              stack: Buffer.concat(words).toString(),
            }
          : undefined,
      );
    });
  });
  return {
    ended,
    /** What another process has found. */
    tell: (message) => working && worker.connected && worker.send(message),
    stop() {
      stopped = true;
      worker.kill();
    },
  };
}

/** The line of what a process said that names its error. */
function said(words) {
  return (/(ERROR: |runtime error: |Error[^:\n]*: ).*/.exec(Buffer.concat(words).toString())?.[0] ?? '').slice(0, 300);
}
