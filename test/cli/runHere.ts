import { jest } from '@jest/globals';
import type { CommandContext } from '../../src/cli/CommandContext.js';
import { runProgram } from '../../src/cli/runProgram.js';
import type { CliResult } from './support.js';

/**
 * Runs a command in this process, which takes a tenth of the time of one of its own: for what is not about processes
 * (their standard input and output, signals, memory), which `runCli` is for.
 */
export async function runHere(args: readonly string[]): Promise<CliResult> {
  let [stdout, stderr] = ['', ''];
  const { isTTY } = process.stderr;
  const said = jest.spyOn(process.stderr, 'write').mockImplementation((text) => {
    stderr += String(text);
    return true;
  });
  process.stderr.isTTY = false;
  const context: CommandContext = {
    signal: new AbortController().signal,
    exitCode: 0,
    endAfter: () => undefined,
    endingAtOnce: async (work) => work(),
    say: (text) => void (stderr += `${text}\n`),
    print: (text) => Promise.resolve(void (stdout += text)),
  };
  try {
    const code = await runProgram(context, args, () => 130);
    return { code, stdout, stderr };
  } finally {
    process.stderr.isTTY = isTTY;
    said.mockRestore();
  }
}
