import { checkNumber } from '../../arguments/checks.js';
import { found } from '../../arguments/found.js';
import { UsageError } from '../../errors/UsageError.js';
import { checkIndex, type Shard, SHARDS } from './Shard.js';

type Environment = Readonly<Record<string, string | undefined>>;

/** How an array of like tasks tells each of them which one it is. */
interface ArrayJob {
  readonly name: string;
  /** The variable that is there in such a task, and in no other process. */
  readonly index: string;
  /** The variable that says how many tasks there are, where there is one. */
  readonly count?: string;
  /** The first task, and how far apart tasks are, of a system whose tasks need not begin at 0. */
  readonly numbered?: { readonly least: string; readonly most: string; readonly step: string };
}

const ARRAY_JOBS: readonly ArrayJob[] = [
  { name: 'a Kubernetes indexed Job', index: 'JOB_COMPLETION_INDEX' },
  {
    name: 'a Slurm array',
    index: 'SLURM_ARRAY_TASK_ID',
    count: 'SLURM_ARRAY_TASK_COUNT',
    numbered: { least: 'SLURM_ARRAY_TASK_MIN', most: 'SLURM_ARRAY_TASK_MAX', step: 'SLURM_ARRAY_TASK_STEP' },
  },
  { name: 'an AWS Batch array', index: 'AWS_BATCH_JOB_ARRAY_INDEX', count: 'AWS_BATCH_JOB_ARRAY_SIZE' },
];

/**
 * The shard of a task of an array job, by what Kubernetes (`JOB_COMPLETION_INDEX`), Slurm (`SLURM_ARRAY_TASK_ID`) or
 * AWS Batch (`AWS_BATCH_JOB_ARRAY_INDEX`) says in its environment.
 * @param count how many shards there are. Tasks then have to be numbered from 0, and may be started again one by one.
 * Default: as many as the array has tasks, which Slurm and AWS Batch say and Kubernetes does not
 * @throws UsageError outside of such a task, in one of several systems at once, and for numbers that make no shard
 */
export function shardOfEnvironment(environment: Readonly<Record<string, string | undefined>>, count?: number): Shard {
  const there = ARRAY_JOBS.filter(({ index }) => isSet(environment, index));
  const [job, other] = there;
  if (job === undefined) {
    throw new UsageError(
      `shard: found none of ${ARRAY_JOBS.map(({ index }) => index).join(', ')} in the environment, expected one, as in a task of an array job; say which shard it is: K/N`,
    );
  }
  if (other !== undefined) {
    throw new UsageError(
      `shard: found ${there.map(({ index }) => index).join(' and ')} in the environment, expected one of them; say which shard it is: K/N`,
    );
  }
  if (count !== undefined) return checked(job, wholeOf(environment, job.index), count);
  if (job.count === undefined) {
    throw new UsageError(
      `shard: found ${job.index} in the environment, and ${job.name} does not say how many tasks it has; say so: env/N`,
    );
  }
  const tasks = wholeOf(environment, job.count);
  const index = wholeOf(environment, job.index);
  const { numbered } = job;
  if (numbered === undefined || !isSet(environment, numbered.least)) return checked(job, index, tasks);
  const [least, most] = [wholeOf(environment, numbered.least), wholeOf(environment, numbered.most)];
  const step = isSet(environment, numbered.step) ? Math.max(1, wholeOf(environment, numbered.step)) : 1;
  const place = (index - least) / step;
  // Some tasks of an array, started again, do not say how many there were.
  if (least > 1 || !Number.isInteger(place) || Math.floor((most - least) / step) + 1 !== tasks) {
    throw new UsageError(
      `shard: found ${job.index}=${index} in ${job.name} of ${tasks} tasks from ${least} to ${most}, expected all tasks from 0 or 1 on, numbered evenly; number them from 0 and say how many shards there are: env/N`,
    );
  }
  return checked(job, place, tasks);
}

function checked({ index: variable }: ArrayJob, index: number, count: number): Shard {
  checkNumber('shards', count, SHARDS);
  checkIndex(variable, index, count);
  return { index, count };
}

/** AWS Batch and Slurm leave variables empty outside of arrays. */
function isSet(environment: Environment, name: string): boolean {
  return (environment[name] ?? '') !== '';
}

function wholeOf(environment: Environment, name: string): number {
  const text = environment[name];
  if (text !== undefined && /^\d{1,9}$/.test(text)) return Number(text);
  throw new UsageError(`${name}: found ${found(text)} in the environment, expected a whole number`);
}
