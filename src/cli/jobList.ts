import type { Command } from 'commander';
import type { CommandContext } from './CommandContext.js';
import { addSwitch, requireFlags } from './flags/commandFlags.js';
import { addQueueFlag, type QueueFlags } from './flags/queueFlags.js';
import { jobStatus, type JobStatus, openWorkSource, UsageError } from './library.js';
import { timeLeft } from './jobStatus.js';
import { formatTable } from './table.js';

interface ListFlags extends Pick<QueueFlags, 'queue'> {
  readonly json: boolean;
}

type JobState = 'open' | 'running' | 'done' | 'failed';

/** A job of a queue, in a line. */
interface ListedJob extends Pick<JobStatus, 'rows' | 'rowsDone' | 'secondsLeft' | 'output'> {
  readonly job: string;
  readonly state: JobState;
  readonly workers: number;
}

/** The name for a source that is asked for the names of all jobs alone. */
const NO_JOB = 'list';

export function addJobList(job: Command, context: CommandContext): void {
  const command = job
    .command('list')
    .description('Lists the jobs of a queue: their state, rows that are done, workers, and how long they still take.');
  addQueueFlag(command);
  addSwitch(command, '--json', 'print one JSON document');
  command.action(async (flags: ListFlags) => {
    requireFlags(flags, 'queue');
    const { queue = '', json } = flags;
    await using source = await openWorkSource(queue, NO_JOB, { signal: context.signal });
    const jobs: ListedJob[] = [];
    for (const name of await source.jobs()) {
      const listed = await listedJob(queue, name, context.signal);
      if (listed) jobs.push(listed);
    }
    await context.print(json ? `${JSON.stringify(jobs, undefined, 2)}\n` : table(jobs));
  });
}

/** Undefined for one that is gone by now, or is only being made. */
async function listedJob(queue: string, job: string, signal: AbortSignal): Promise<ListedJob | undefined> {
  await using source = await openWorkSource(queue, job, { signal });
  let status: JobStatus;
  try {
    status = await jobStatus(source);
  } catch (error) {
    if (error instanceof UsageError) return undefined;
    throw error;
  }
  const { rows, rowsDone, secondsLeft, output, leased } = status;
  return {
    job,
    state: stateOf(status),
    rows,
    rowsDone,
    ...(secondsLeft !== undefined && { secondsLeft }),
    workers: new Set(leased.map(({ worker }) => worker)).size,
    output,
  };
}

function stateOf({ ended, shards, leased }: JobStatus): JobState {
  if (!ended) return leased.length > 0 ? 'running' : 'open';
  return shards.failed > 0 ? 'failed' : 'done';
}

function table(jobs: readonly ListedJob[]): string {
  return formatTable([
    ['job', 'state', 'rows', 'done', 'left', 'workers', 'output'],
    ...jobs.map(({ job, state, rows, rowsDone, secondsLeft, workers, output }) => [
      job,
      state,
      String(rows),
      String(rowsDone),
      timeLeft(secondsLeft),
      String(workers),
      output,
    ]),
  ]);
}
