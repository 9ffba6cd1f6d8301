import type { Command } from 'commander';
import type { CommandContext } from './CommandContext.js';
import { addSwitch } from './flags/commandFlags.js';
import { addQueueFlags, queueOf, type QueueFlags } from './flags/queueFlags.js';
import { jobStatus, type JobStatus } from './library.js';
import { formatDuration } from './ProgressMeter.js';
import { formatTable } from './table.js';

interface StatusFlags extends QueueFlags {
  readonly json: boolean;
}

export function addJobStatus(job: Command, context: CommandContext): void {
  const command = job
    .command('status')
    .description(
      'Says how far a job of a queue has come: rows that are done and the time that is left, shards by state, who works on which, which were given up and why.',
    );
  addQueueFlags(command);
  addSwitch(command, '--json', 'print one JSON document');
  command.action(async (flags: StatusFlags) => {
    await using source = await queueOf(flags, context.signal);
    const status = await jobStatus(source);
    await context.print(flags.json ? `${JSON.stringify(status, undefined, 2)}\n` : tables(status));
  });
}

/** `1:05`, or `-` where nobody knows. */
export function timeLeft(seconds: number | undefined): string {
  return seconds === undefined ? '-' : formatDuration(seconds);
}

function tables({ rows, rowsDone, secondsLeft, shards, maxDeliver, output, leased, troubled }: JobStatus): string {
  const { count, open, leased: taken, committed, failed } = shards;
  const lines = [
    ['rows', 'done', 'left', 'shards', 'open', 'leased', 'committed', 'given up', 'output'],
    [rows, rowsDone, timeLeft(secondsLeft), count, open, taken, committed, failed, output].map(String),
  ];
  const workers = leased.map(({ shard, worker = '', deliveries, progress }) => [
    String(shard),
    worker,
    `${deliveries} of ${maxDeliver}`,
    progress ? String(progress.rows) : '',
    progress ? progress.rowsPerSecond.toFixed(1) : '',
  ]);
  const reasons = troubled.map(({ shard, state, deliveries, reasons: why }) => [
    String(shard),
    state === 'failed' ? 'given up' : state,
    `${deliveries} of ${maxDeliver}`,
    why.at(-1) ?? '',
  ]);
  return [
    formatTable(lines),
    ...(workers.length === 0
      ? []
      : [formatTable([['shard', 'worker', 'delivery', 'rows done', 'rows/s'], ...workers])]),
    ...(reasons.length === 0 ? [] : [formatTable([['shard', 'state', 'delivery', 'last failure'], ...reasons])]),
  ].join('\n');
}
