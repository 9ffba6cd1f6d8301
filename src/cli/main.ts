#!/usr/bin/env node
import { setTimeout as sleep } from 'node:timers/promises';
import type { CommandContext } from './CommandContext.js';
import { EXIT, outcomeOf } from './exitCodes.js';
import { Interrupt } from './Interrupt.js';
import { StreamWriter } from './library.js';
import { log, type LogLevel } from './Log.js';
import { ProgressMeter } from './ProgressMeter.js';
import { runProgram } from './runProgram.js';
import { standardOutput } from './standardStreams.js';
import { visible } from './table.js';

const LAST_WAIT_MILLISECONDS = 100;

const say = (text: string, level: LogLevel = 'info'): void => {
  ProgressMeter.clear();
  log.say(text, level);
};

// The bar hides the cursor, and an end at once would leave it hidden.
const interrupt = new Interrupt(say, () => ProgressMeter.clear());
const context: CommandContext = {
  signal: interrupt.signal,
  endAfter: (milliseconds, why) => interrupt.endAfter(milliseconds, why),
  endingAtOnce: (work) => interrupt.endingAtOnce(work),
  exitCode: EXIT.fine,
  say,
  async print(text, exactly = false) {
    const out = new StreamWriter(standardOutput(), 'standard output', { signal: interrupt.signal });
    await out.write(exactly ? text : visible(text));
    await out.close();
  },
};

/** Ends the process with an error that nobody awaited. */
function failHard(error: unknown): void {
  const { exitCode, message } = outcomeOf(error, interrupt.exitCode);
  ProgressMeter.clear();
  if (message !== undefined) say(message, 'error');
  process.exit(exitCode);
}
process.on('uncaughtException', failHard);
process.on('unhandledRejection', failHard);
// Nobody reads our words any more: the work goes on without them.
process.stderr.on('error', () => undefined);
// Whoever writes a result to stdout gets the failure; this one only keeps the event from ending the process in the
// middle.
process.stdout.on('error', () => undefined);

const exitCode = await runProgram(context, process.argv.slice(2), () => interrupt.exitCode);
interrupt.dispose();
// Explicitly: a pipe on stdin that nobody closes would keep the process alive. What was written to stdout and stderr is
// through by then.
const open = [process.stdout, process.stderr].filter((stream) => !stream.destroyed);
const taken = Promise.all(open.map((stream) => new Promise<void>((resolve) => void stream.write('', () => resolve()))));
// A reader that sleeps does not hold up the end that was asked for.
await (context.signal.aborted ? Promise.race([taken, sleep(LAST_WAIT_MILLISECONDS)]) : taken);
process.exit(exitCode);
