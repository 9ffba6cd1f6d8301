import { spawn } from 'node:child_process';
import { once } from 'node:events';

/** Kept of a command's words, for the error message. */
const KEPT_CHARACTERS = 2000;

export interface CommandOptions {
  readonly signal: AbortSignal;
  readonly environment?: NodeJS.ProcessEnv;
}

/**
 * Runs a program, without a shell and without input, and yields what it writes to stdout.
 * @throws an Error that carries the last line of its stderr if the program is missing or fails; its `cause` has code
 * ENOENT if it is missing.
 */
export async function* runCommand(
  program: string,
  argv: readonly string[],
  options: CommandOptions,
): AsyncGenerator<Buffer> {
  options.signal.throwIfAborted();
  const child = spawn(program, argv, {
    stdio: ['ignore', 'pipe', 'pipe'],
    signal: options.signal,
    env: options.environment ?? process.env,
  });
  let words = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    words = (words + text).slice(-KEPT_CHARACTERS);
  });
  // Listening from the start: a missing program reports at once.
  const closed = once(child, 'close').then(
    ([code, signal]: (number | string | null)[]) => ({ code, signal, error: undefined }),
    (error: unknown) => ({ code: null, signal: null, error }),
  );
  try {
    for await (const chunk of child.stdout) yield chunk as Buffer;
    const { code, signal, error } = await closed;
    if (error !== undefined) throw new Error(`${program} could not be run`, { cause: error });
    if (code !== 0) {
      const lines = words
        .trim()
        .split('\n')
        .map((line) => line.trim())
        .filter((line) => line !== '' && !line.startsWith('[notice]'));
      throw new Error(
        `${program} ended with ${code === null ? String(signal) : `exit code ${code}`}: ${lines.at(-1) ?? 'no message'}`,
      );
    }
  } finally {
    if (child.exitCode === null && child.signalCode === null) child.kill();
  }
}

/** Runs a program for its effect; what it prints is dropped. */
export async function runToEnd(program: string, argv: readonly string[], options: CommandOptions): Promise<void> {
  const output = runCommand(program, argv, options);
  while ((await output.next()).done !== true) continue;
}
