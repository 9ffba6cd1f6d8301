import { stat } from 'node:fs/promises';
import { InvalidArgumentError, Option, type Command } from 'commander';
import {
  checkJobOptions,
  isWithin,
  JOB_OPTIONS,
  rangeWords,
  shardOfEnvironment,
  shardPath,
  specialKind,
  UsageError,
  type Shard,
} from '../library.js';
import { wholeNumber } from './parsers.js';

/** Which of the input's rows are done. */
export interface ShardFlags {
  readonly shard?: string;
  readonly shardRows: number;
}

/** `2/8`, `env`, `env/8`. */
const SHARD = /^(?:(\d+)\/(\d+)|env(?:\/(\d+))?)$/;

export function addShardFlags(command: Command): void {
  command.addOption(
    new Option(
      '--shard <k/n|env|env/n>',
      'these rows of the input alone: shard k of n, from 0, into OUTPUT-0000k-of-0000n; env: which one the environment of a task of Kubernetes, Slurm or AWS Batch says; `spillway job collect` makes one output of all (default: all rows)',
    ).argParser(shardText),
  );
  command.option(
    '--shard-rows <n>',
    'rows that are dealt to a shard at a time',
    wholeNumber(JOB_OPTIONS.shardRows.least, JOB_OPTIONS.shardRows.most),
    1,
  );
}

function shardText(text: string): string {
  const [, index, given, named] = SHARD.exec(text) ?? [undefined, undefined, undefined, undefined];
  const count = given ?? named;
  if (!SHARD.test(text)) throw new InvalidArgumentError('Expected K/N, env or env/N, e.g. 0/8.');
  if (count !== undefined && !isWithin(Number(count), JOB_OPTIONS.shards))
    throw new InvalidArgumentError(`Expected ${rangeWords(JOB_OPTIONS.shards, Number(count))} shards.`);
  if (index !== undefined) {
    try {
      checkJobOptions({ shard: { index: Number(index), count: Number(count) } });
    } catch (error) {
      throw error instanceof UsageError
        ? new InvalidArgumentError(`${error.message.replace(/^shard\.index/, 'K')}.`)
        : error;
    }
  }
  return text;
}

/** The shard that flags and environment say. @throws UsageError where the environment says none */
export function shardOf(
  { shard, shardRows: rows }: ShardFlags,
  environment: Readonly<Record<string, string | undefined>>,
): Required<Shard> | undefined {
  if (shard === undefined) {
    if (rows !== 1) throw new UsageError('`shardRows` goes with `shard`: it says how rows are dealt to shards');
    return undefined;
  }
  const [, index, count, named] = SHARD.exec(shard) ?? [];
  if (index !== undefined) return { index: Number(index), count: Number(count), rows };
  return { ...shardOfEnvironment(environment, named === undefined ? undefined : Number(named)), rows };
}

/** The files a command writes. */
interface Files {
  readonly output: string;
  readonly errors?: string;
  readonly stats?: string;
  readonly trace?: string;
}

/** Flags whose files are those of a shard. Standard output, pipes and devices are what they are. */
export async function flagsOfShard<Flags extends Files>(flags: Flags, shard: Shard): Promise<Flags> {
  const own: { -readonly [File in keyof Files]?: string } = {};
  for (const name of ['output', 'errors', 'stats', 'trace'] as const) {
    const path = flags[name];
    if (path !== undefined && path !== '-' && !(await isSpecial(path))) own[name] = shardPath(path, shard);
  }
  return { ...flags, ...own };
}

async function isSpecial(path: string): Promise<boolean> {
  const stats = await stat(path).catch(() => undefined);
  return stats !== undefined && !stats.isDirectory() && specialKind(stats) !== undefined;
}
