#!/usr/bin/env node
import type { CommandContext } from './CommandContext.js';
import { EXIT, outcomeOf } from './exitCodes.js';
import { Interrupt } from './Interrupt.js';
import { StreamWriter } from './library.js';
import { createProgram } from './program.js';

const say = (text: string): void => {
  process.stderr.write(`${text}\n`);
};

const interrupt = new Interrupt(say);
const context: CommandContext = {
  signal: interrupt.signal,
  exitCode: EXIT.fine,
  say,
  async print(text) {
    const out = new StreamWriter(process.stdout, 'standard output');
    await out.write(text);
    await out.close();
  },
};

/** Ends the process with an error that nobody awaited. */
function failHard(error: unknown): void {
  const { exitCode, message } = outcomeOf(error, interrupt.exitCode);
  if (message !== undefined) say(message);
  process.exit(exitCode);
}
process.on('uncaughtException', failHard);
process.on('unhandledRejection', failHard);
// Nobody reads our words any more: the work goes on without them.
process.stderr.on('error', () => undefined);
// Whoever writes a result to stdout gets the failure; this one only keeps the event from ending the process in the middle.
process.stdout.on('error', () => undefined);

let exitCode: number;
try {
  await createProgram(context).parseAsync();
  exitCode = context.exitCode;
} catch (error) {
  const outcome = outcomeOf(error, interrupt.exitCode);
  if (outcome.message !== undefined) say(outcome.message);
  exitCode = outcome.exitCode;
}
interrupt.dispose();
// Explicitly: a pipe on stdin that nobody closes would keep the process alive. What was written to stdout and stderr is through by then.
for (const stream of [process.stdout, process.stderr]) {
  if (!stream.destroyed) await new Promise<void>((resolve) => void stream.write('', () => resolve()));
}
process.exit(exitCode);
