// The command line of this checkout in processes of its own, each with an end.
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

export const ROOT = fileURLToPath(new URL('../../../', import.meta.url));
export const MAIN = `${ROOT}dist/cli/main.js`;

/** A run of the command line is taken to hang after this long. */
const HANG_SECONDS = 180;
const KEPT_CHARACTERS = 20_000;

/**
 * Starts `spillway ARGS`.
 * @param {{env?: object, hangSeconds?: number, script?: string}} options `script`: another program than the command
 * line
 * @returns the child, and `ended`: how it ended ({code, signal, stdout, stderr, hung, seconds}; it never rejects)
 */
export function start(args, { env, hangSeconds = HANG_SECONDS, script = MAIN } = {}) {
  const begin = performance.now();
  const child = spawn(process.execPath, [script, ...args], {
    cwd: ROOT,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...env },
  });
  const output = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr']) {
    child[name].setEncoding('utf8').on('data', (text) => {
      output[name] = (output[name] + text).slice(-KEPT_CHARACTERS);
    });
  }
  const ended = new Promise((resolve) => {
    let hung = false;
    const limit = setTimeout(() => {
      hung = true;
      child.kill('SIGKILL');
    }, hangSeconds * 1000);
    const end = (code, signal) => {
      clearTimeout(limit);
      resolve({ code, signal, ...output, hung, seconds: (performance.now() - begin) / 1000 });
    };
    child.once('error', (error) => {
      output.stderr += error.message;
      end(null, null);
    });
    child.once('close', end);
  });
  return { child, ended };
}

export function run(args, options) {
  return start(args, options).ended;
}

/** How a process ended, for evidence. */
export function ending({ code, signal, hung, stderr }) {
  return `${hung ? 'hung; ' : ''}${signal === null ? `exit ${code}` : signal}: ${stderr.trim().slice(-600)}`;
}
