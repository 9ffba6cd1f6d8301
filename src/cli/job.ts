import type { Command } from 'commander';
import type { CommandContext } from './CommandContext.js';
import { addJobCollect } from './jobCollect.js';

/** What is done with jobs of several processes. */
export function addJob(program: Command, context: CommandContext): void {
  const command = program
    .command('job')
    .description('Puts together what several processes have made of one input.')
    .helpCommand(false);
  addJobCollect(command, context);
}
