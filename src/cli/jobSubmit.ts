import { Option, type Command } from 'commander';
import type { CommandContext } from './CommandContext.js';
import {
  addCompletionFlags,
  addEmbeddingFlags,
  addLabelFlags,
  completionOptions,
  embeddingOptions,
  labelOptions,
  type CompletionFlags,
  type EmbeddingFlags,
  type LabelFlags,
} from './flags/answerFlags.js';
import { addChunkFlags, chunkOptions, embedChunkOptions, type ChunkFlags } from './flags/chunkFlags.js';
import { addSwitch, requireFlags } from './flags/commandFlags.js';
import { addSharedEngineFlags, sharedEngineOptions, type SharedEngineFlags } from './flags/engineFlags.js';
import { addFormatFlags, formatOptions, type FormatFlags } from './flags/formatFlags.js';
import { path, decimal, wholeNumber } from './flags/parsers.js';
import { addPromptFlags, promptOptions, type PromptFlags } from './flags/promptFlags.js';
import { addQueueFlags, queueOf, type QueueFlags } from './flags/queueFlags.js';
import { addSamplingFlags, samplingOptions, type SamplingFlags } from './flags/samplingFlags.js';
import { addInputFlags, comesOnce, tableOptions, type TableFlags } from './flags/tableFlags.js';
import { checkJobOptions, JOB_OPTIONS, submitJob, UsageError, type JobOptions, type JobTaskName } from './library.js';

interface SubmitFlags
  extends
    QueueFlags,
    SharedEngineFlags,
    TableFlags,
    PromptFlags,
    FormatFlags,
    ChunkFlags,
    SamplingFlags,
    LabelFlags,
    CompletionFlags,
    EmbeddingFlags {
  readonly task: JobTaskName;
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
    --input /data/tickets.csv --output /data/answers.csv \\
    --columns prompt=question --chat on --max-new-tokens 32
  spillway job work --job tickets          on as many machines as there are
  spillway job status --job tickets
  spillway job collect --job tickets --output /data/answers.csv`;

export function addJobSubmit(job: Command, context: CommandContext): void {
  const command = job
    .command('submit')
    .description(
      'Puts a job of `generate`, `classify`, `score`, `rerank` or `embed` into a queue: its shards, and all that decides its results, for `job work` on any number of machines.',
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
    'a shard is given up after so many workers failed at it; those that were stopped do not count',
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
  command.optionsGroup('Task:');
  command.addOption(
    new Option('--task <name>', 'what is done with the rows').choices(JOB_OPTIONS.tasks).default('generate'),
  );
  const own = addTaskFlags(command);
  command.addHelpText('after', EXAMPLES);
  command.action(async (flags: SubmitFlags) => {
    requireFlags(flags, 'queue', 'job', 'model', 'input', 'output');
    const { input, output, carryFields, parts, shards, shardRows, maxDeliver, leaseSeconds, overwrite } = flags;
    if (comesOnce(input))
      throw new UsageError('--input: found rows that come once, expected files that every worker can read');
    if (output === '-')
      throw new UsageError('--output: found standard output, expected a file: it is what `job collect` writes');
    const { task } = flags;
    for (const [tasks, options] of own)
      for (const option of options)
        if (!tasks.includes(task) && command.getOptionValueSource(option.attributeName()) === 'cli')
          throw new UsageError(
            `${option.long ?? ''}: found it beside --task ${task}, expected --task ${tasks.join(' or ')}`,
          );
    const work = await taskOptions(flags, context.signal);
    if (flags.resultColumns)
      checkJobOptions({ resultColumns: flags.resultColumns, ...(work.generate && { generate: work.generate }) });
    const engine = await sharedEngineOptions(flags);
    const { inputFormat, columns, delimiter, resultColumns, resultPrefix } = tableOptions(flags);
    await using source = await queueOf(flags, context.signal);
    const manifest = await submitJob({
      source,
      input,
      output,
      inputFormat,
      ...(columns && { columns }),
      ...(delimiter !== undefined && { delimiter }),
      ...(resultColumns && { resultColumns }),
      ...(resultPrefix !== undefined && { resultPrefix }),
      carryFields,
      ...(parts !== undefined && { parts }),
      ...(shards !== undefined && { shards }),
      ...(shardRows !== undefined && { shardRows }),
      maxDeliver,
      leaseSeconds,
      overwrite,
      ...work,
      engine,
      signal: context.signal,
    });
    if (source.durability !== undefined) context.say(`note: ${source.durability}`);
    const { rows, shards: dealt } = manifest;
    context.say(
      `${rows} ${rows === 1 ? 'row' : 'rows'} in ${dealt.count} ${dealt.count === 1 ? 'shard' : 'shards'}; parts go to ${manifest.parts}`,
    );
  });
}

/** Flags that stand among those of other tasks, and are for generated answers. */
const GENERATES: ReadonlySet<string> = new Set(['reasoning', 'toolChoice', 'parallelToolCalls', 'merge']);

type TaskFlags = readonly [tasks: readonly JobTaskName[], options: readonly Option[]];

/** The flags that say something where the job's task is one of these. */
function addTaskFlags(command: Command): readonly TaskFlags[] {
  const added = (add: () => void): readonly Option[] => {
    const before = command.options.length;
    add();
    return command.options.slice(before);
  };
  const isGenerates = (option: Option): boolean => GENERATES.has(option.attributeName());
  const chunks = added(() => {
    addChunkFlags(command, true);
  });
  return [
    [['generate', 'embed'], chunks.filter((option) => !isGenerates(option))],
    [
      ['generate'],
      [
        ...command.options.filter(isGenerates),
        ...added(() => {
          addFormatFlags(command);
          addSamplingFlags(command);
        }),
      ],
    ],
    [
      ['classify'],
      added(() => {
        command.optionsGroup('Labels (--task classify):');
        addLabelFlags(command);
      }),
    ],
    [
      ['score'],
      added(() => {
        command.optionsGroup('Completions (--task score):');
        addCompletionFlags(command);
      }),
    ],
    [
      ['embed'],
      added(() => {
        command.optionsGroup('Embeddings (--task embed):');
        addEmbeddingFlags(command);
      }),
    ],
  ];
}

/** Gives the options of the job's task, with the files that the flags name read. @throws UsageError, JobFileError */
async function taskOptions(flags: SubmitFlags, signal: AbortSignal): Promise<Pick<JobOptions, JobTaskName>> {
  const { reasoning, toolChoice, parallelToolCalls, ...prompts } = await promptOptions(flags, signal);
  switch (flags.task) {
    case 'generate':
      return {
        generate: {
          ...samplingOptions(flags),
          ...chunkOptions(flags),
          ...prompts,
          ...(reasoning && { reasoning }),
          ...(toolChoice !== undefined && { toolChoice }),
          ...(parallelToolCalls !== undefined && { parallelToolCalls }),
          ...(await formatOptions(flags, signal)),
        },
      };
    case 'classify':
      return { classify: { ...(await labelOptions(flags, signal)), ...prompts } };
    case 'score':
      return { score: { ...completionOptions(flags), ...prompts } };
    case 'rerank': {
      const { escapeSpecialTokens, truncate } = prompts;
      return {
        rerank: {
          ...(escapeSpecialTokens !== undefined && { escapeSpecialTokens }),
          ...(truncate !== undefined && { truncate }),
        },
      };
    }
    case 'embed':
      return { embed: { ...embeddingOptions(flags), ...embedChunkOptions(flags), ...prompts } };
  }
}
