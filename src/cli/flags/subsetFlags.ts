import { InvalidArgumentError, Option, type Command } from 'commander';
import type { CommandContext } from '../CommandContext.js';
import { checkJobOptions, JOB_OPTIONS, UsageError, type RowSample, type SubsetOptions } from '../library.js';
import { checkedText, decimal, wholeNumber } from './parsers.js';

/** How much of a job this run does: some of the rows, or for some time. */
export interface SubsetFlags {
  readonly limit?: number;
  readonly sample?: string;
  readonly sampleSeed?: number;
  readonly maxSeconds?: number;
  readonly stopAt?: Date;
}

export function addSubsetFlags(command: Command): void {
  command.option(
    '--limit <n>',
    'the first rows of the input alone; --resume without it goes on with the others (default: all rows)',
    wholeNumber(JOB_OPTIONS.limit.least, JOB_OPTIONS.limit.most),
  );
  command.addOption(
    new Option(
      '--sample <n|p%>',
      'drawn rows of the input alone, so many or a share; --resume without it goes on with the others (default: all rows)',
    ).argParser(checkedText((text) => checkJobOptions({ sample: sampleOf(text) }))),
  );
  command.option(
    '--sample-seed <n>',
    'which sample is drawn (default: 0)',
    wholeNumber(JOB_OPTIONS.sampleSeed.least, JOB_OPTIONS.sampleSeed.most),
  );
  command.option(
    '--max-seconds <s>',
    'end after so long, as SIGTERM does; --resume goes on (default: never)',
    decimal({ least: 0, above: true, most: 1e9 }),
  );
  command.addOption(
    new Option(
      '--stop-at <time>',
      'end so at a time: HH:MM, the next one, or a date such as 2027-01-31T06:00, by the clock of this machine unless it names a zone (default: never)',
    ).argParser((text) => timeOf(text, new Date())),
  );
}

/** Makes a job's subset options. */
export function subsetOptions({ limit, sample, sampleSeed }: SubsetFlags): SubsetOptions {
  return {
    ...(limit !== undefined && { limit }),
    ...(sample !== undefined && { sample: sampleOf(sample) }),
    ...(sampleSeed !== undefined && { sampleSeed }),
  };
}

/** Ends the command when its time is over. @throws UsageError for a time that is past */
export function endInTime({ maxSeconds, stopAt }: SubsetFlags, context: CommandContext): void {
  if (maxSeconds !== undefined) {
    const left = 1000 * (maxSeconds - process.uptime());
    context.endAfter(Math.max(0, left), `--max-seconds ${maxSeconds} are over`);
  }
  if (stopAt === undefined) return;
  const left = stopAt.getTime() - Date.now();
  if (left <= 0)
    throw new UsageError(`--stop-at: found ${stopAt.toISOString()}, which is past, expected a time to come`);
  context.endAfter(left, `it is ${stopAt.toLocaleString('sv')}, as --stop-at says`);
}

/** Digits are a count; what else there is the library judges. */
function sampleOf(text: string): RowSample {
  return /^\d+$/.test(text) ? Number(text) : (text as RowSample);
}

/** A time of a day, the next one of that name, or of a date. */
export function timeOf(text: string, now: Date): Date {
  const [, hours, minutes, seconds = '0'] = /^(\d{1,2}):(\d{2})(?::(\d{2}))?$/.exec(text) ?? [];
  if (hours !== undefined && Number(hours) < 24 && Number(minutes) < 60 && Number(seconds) < 60) {
    const time = new Date(now);
    time.setHours(Number(hours), Number(minutes), Number(seconds), 0);
    if (time <= now) time.setDate(time.getDate() + 1);
    return time;
  }
  const date = new Date(/^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}/.test(text) ? text : NaN);
  if (Number.isNaN(date.getTime()))
    throw new InvalidArgumentError('Expected HH:MM, or a date and time such as 2027-01-31T06:00.');
  return date;
}
