import type { CommandContext } from './CommandContext.js';
import { outcomeOf } from './exitCodes.js';
import { createProgram, flagsOf } from './program.js';

/**
 * Runs the command that the arguments name, and says what goes wrong.
 * @param interruptedCode tells the exit code of a run that was interrupted
 * @returns the exit code
 */
export async function runProgram(
  context: CommandContext,
  args: readonly string[],
  interruptedCode: () => number,
): Promise<number> {
  let help = '';
  const program = createProgram(context, (text) => {
    help += text;
  });
  try {
    await program.parseAsync(args, { from: 'user' }).catch(async (error: unknown) => {
      // Help and the version are results, too: what cannot be written is an error.
      if (help === '') throw error;
      await context.print(help);
    });
    return context.exitCode;
  } catch (error) {
    const { exitCode, message } = outcomeOf(error, interruptedCode(), flagsOf(program));
    if (message !== undefined) context.say(message, 'error');
    return exitCode;
  }
}
