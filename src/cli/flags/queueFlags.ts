import { Option, type Command } from 'commander';
import { openWorkSource, type WorkSource } from '../library.js';
import { requireFlags } from './commandFlags.js';

/** Which job of which queue. */
export interface QueueFlags {
  readonly queue?: string;
  readonly job?: string;
}

export function addQueueFlags(command: Command, required = true): void {
  addQueueFlag(command, required);
  command.addOption(new Option('--job <name>', `${necessary(required)}what the job is called in the queue`));
}

/** Without a job: of all of them. */
export function addQueueFlag(command: Command, required = true): void {
  command.addOption(
    new Option(
      '--queue <url>',
      `${necessary(required)}a queue that exists: nats://HOST:PORT, tls://HOST:PORT (JetStream) or postgres://HOST/DATABASE. Passwords are better in the environment`,
    ).env('SPILLWAY_QUEUE'),
  );
}

function necessary(required: boolean): string {
  return required ? 'necessary; ' : '';
}

/** @throws UsageError; QueueError where it cannot be reached; InterruptedError where the signal fires before */
export async function queueOf(flags: QueueFlags, signal: AbortSignal): Promise<WorkSource> {
  requireFlags(flags, 'queue', 'job');
  const { queue = '', job = '' } = flags;
  return openWorkSource(queue, job, { signal });
}
