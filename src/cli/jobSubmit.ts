import { Option, type Command } from 'commander';
import type { CommandContext } from './CommandContext.js';
import { addSwitch, requireFlags } from './flags/commandFlags.js';
import { addSharedEngineFlags, sharedEngineOptions, type SharedEngineFlags } from './flags/engineFlags.js';
import { addFormatFlags, formatOptions, type FormatFlags } from './flags/formatFlags.js';
import { path, decimal, wholeNumber } from './flags/parsers.js';
import { addPromptFlags, promptOptions, type PromptFlags } from './flags/promptFlags.js';
import { addQueueFlags, queueOf, type QueueFlags } from './flags/queueFlags.js';
import { addSamplingFlags, samplingOptions, type SamplingFlags } from './flags/samplingFlags.js';
import { addInputFlags, comesOnce, tableOptions, type TableFlags } from './flags/tableFlags.js';
import { checkJobOptions, JOB_OPTIONS, submitJob, UsageError } from './library.js';

interface SubmitFlags extends QueueFlags, SharedEngineFlags, TableFlags, PromptFlags, FormatFlags, SamplingFlags {
  readonly carryFields: boolean;
  readonly parts?: string;
  readonly shards?: number;
  readonly shardRows?: number;
  readonly maxDeliver: number;
  readonly leaseSeconds: number;
  readonly overwrite: boolean;
}

const EXAMPLES = `
Examples:
  export SPILLWAY_QUEUE=nats://queue.example:4222
  spillway job submit --job tickets --shards 100 --model smollm2-135m-instruct \\
    --input /data/tickets.csv --output /data/answers.csv --max-new-tokens 32
  spillway job work --job tickets          on as many machines as there are
  spillway job status --job tickets
  spillway job collect --job tickets --output /data/answers.csv`;

export function addJobSubmit(job: Command, context: CommandContext): void {
  const command = job
    .command('submit')
    .description(
      'Puts a job of `generate` into a queue: its shards, and all that decides its results, for `job work` on any number of machines.',
    );
  command.optionsGroup('Queue:');
  addQueueFlags(command);
  command.option(
    '--shards <n>',
    'how many shards there are (default: as many as the rows make, --shard-rows in each)',
    wholeNumber(JOB_OPTIONS.shards.least, JOB_OPTIONS.shards.most),
  );
  command.option(
    '--shard-rows <n>',
    'rows that are dealt to a shard at a time (default: 1)',
    wholeNumber(JOB_OPTIONS.shardRows.least, JOB_OPTIONS.shardRows.most),
  );
  command.addOption(
    new Option('--parts <folder>', 'where parts go, which all workers see (default: OUTPUT.parts)').argParser(path),
  );
  command.option(
    '--max-deliver <n>',
    'a shard is given up after so many workers went away with it, or failed at it; those that were stopped do not count',
    wholeNumber(JOB_OPTIONS.maxDeliver.least, JOB_OPTIONS.maxDeliver.most),
    JOB_OPTIONS.maxDeliver.fallback,
  );
  command.option(
    '--lease-seconds <n>',
    'a worker that has not been heard of for so long loses its shard',
    decimal(JOB_OPTIONS.leaseSeconds),
    JOB_OPTIONS.leaseSeconds.fallback,
  );
  addSwitch(command, '--overwrite', 'replace a job of that name, whatever its state (else it is refused)');
  command.optionsGroup('Model and files:');
  addSharedEngineFlags(command);
  addInputFlags(command);
  addSwitch(command, '--carry-fields', 'other fields of a row are carried into its result, as `row`');
  addPromptFlags(command);
  addFormatFlags(command);
  addSamplingFlags(command);
  command.addHelpText('after', EXAMPLES);
  command.action(async (flags: SubmitFlags) => {
    requireFlags(flags, 'queue', 'job', 'model', 'input', 'output');
    const { input, output, carryFields, parts, shards, shardRows, maxDeliver, leaseSeconds, overwrite } = flags;
    if (comesOnce(input))
      throw new UsageError('--input: found rows that come once, expected files that every worker can read');
    if (output === '-')
      throw new UsageError('--output: found standard output, expected a file: it is what `job collect` writes');
    const prompts = {
      ...(await promptOptions(flags, context.signal)),
      ...(await formatOptions(flags, context.signal)),
    };
    if (flags.resultColumns) checkJobOptions({ resultColumns: flags.resultColumns, generate: prompts });
    const engine = await sharedEngineOptions(flags);
    const { inputFormat, columns, delimiter, resultColumns } = tableOptions(flags);
    await using source = await queueOf(flags);
    const manifest = await submitJob({
      source,
      input,
      output,
      inputFormat,
      ...(columns && { columns }),
      ...(delimiter !== undefined && { delimiter }),
      ...(resultColumns && { resultColumns }),
      carryFields,
      ...(parts !== undefined && { parts }),
      ...(shards !== undefined && { shards }),
      ...(shardRows !== undefined && { shardRows }),
      maxDeliver,
      leaseSeconds,
      overwrite,
      generate: { ...samplingOptions(flags), ...prompts },
      engine,
      signal: context.signal,
    });
    const { rows, shards: dealt } = manifest;
    context.say(
      `${rows} ${rows === 1 ? 'row' : 'rows'} in ${dealt.count} ${dealt.count === 1 ? 'shard' : 'shards'}; parts go to ${manifest.parts}`,
    );
  });
}
