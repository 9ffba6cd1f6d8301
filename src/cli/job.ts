import type { Command } from 'commander';
import type { CommandContext } from './CommandContext.js';
import { addJobCancel } from './jobCancel.js';
import { addJobCollect } from './jobCollect.js';
import { addJobList } from './jobList.js';
import { addJobStatus } from './jobStatus.js';
import { addJobSubmit } from './jobSubmit.js';
import { addJobWork } from './jobWork.js';

/** Adds the commands for jobs of several processes. */
export function addJob(program: Command, context: CommandContext): void {
  const command = program
    .command('job')
    .description('Several processes at work on one input: by a queue, or each with a share of its own (`--shard K/N`).')
    .helpCommand(false);
  for (const add of [addJobSubmit, addJobWork, addJobList, addJobStatus, addJobCancel, addJobCollect])
    add(command, context);
}
