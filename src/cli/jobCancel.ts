import type { Command } from 'commander';
import type { CommandContext } from './CommandContext.js';
import { addSwitch } from './flags/commandFlags.js';
import { addQueueFlags, queueOf, type QueueFlags } from './flags/queueFlags.js';

interface CancelFlags extends QueueFlags {
  readonly json: boolean;
}

export function addJobCancel(job: Command, context: CommandContext): void {
  const command = job
    .command('cancel')
    .description(
      'Cancels a job of a queue: shards that are not done are given up, and workers leave theirs when they next renew their lease. Parts that are done stay. A job that is over stays as it is.',
    );
  addQueueFlags(command);
  addSwitch(command, '--json', 'print one JSON document');
  command.action(async (flags: CancelFlags) => {
    await using source = await queueOf(flags, context.signal);
    const cancelled = await source.cancel('the job was cancelled');
    if (flags.json) await context.print(`${JSON.stringify({ job: flags.job, cancelled })}\n`);
    else
      context.say(
        cancelled === 0
          ? `${source.name} was over: nothing is cancelled`
          : `${source.name} is cancelled: ${cancelled} ${cancelled === 1 ? 'shard was' : 'shards were'} not done`,
      );
  });
}
