import { Option, type Command } from 'commander';
import type { CommandContext } from './CommandContext.js';
import { EXIT } from './exitCodes.js';
import { addSwitch, gathering, requireFlags } from './flags/commandFlags.js';
import { path } from './flags/parsers.js';
import { addQueueFlags, queueOf, type QueueFlags } from './flags/queueFlags.js';
import { collectJob, JOB_OPTIONS, type FormatChoice, UsageError } from './library.js';

interface CollectFlags extends QueueFlags {
  readonly output: string;
  readonly parts?: readonly string[];
  readonly input?: string;
  readonly outputFormat: FormatChoice;
  readonly errors?: string;
  readonly overwrite: boolean;
}

const EXAMPLES = `
Examples:
  spillway generate --shard 0/2 --model smollm2-135m-instruct \\
    --input questions.csv --output answers.csv --chat on
  spillway generate --shard 1/2 ...     the same on another machine
  spillway job collect --input questions.csv --output answers.csv`;

export function addJobCollect(job: Command, context: CommandContext): void {
  const command = job
    .command('collect')
    .description(
      'Makes one output of the parts that `--shard K/N`, or the workers of a job in a queue, have left, byte for byte what one process would have written. Refuses parts that are missing, not complete, or of another job.',
    );
  command.addOption(
    new Option(
      '--output <file>',
      "necessary; the --output of all shards; what its name says, or --output-format, need not be the parts' format",
    ).argParser(path),
  );
  command.addOption(
    gathering(
      new Option(
        '--parts <file...>',
        'the parts, in any order; patterns, too (default: those beside --output); with --job: the folder where they are, as this machine sees it',
      ).argParser((text: string, before: readonly string[] | undefined) => [...(before ?? []), path(text)]),
    ),
  );
  command.addOption(
    new Option(
      '--input <file>',
      'the --input of all shards, where its columns stand beside the results: of tables, and of files of OpenAI (default: none)',
    ).argParser(path),
  );
  command.addOption(
    new Option('--output-format <format>', "auto: what the file's name says")
      .choices(JOB_OPTIONS.formats)
      .default('auto'),
  );
  command.addOption(
    new Option('--errors <file>', 'where rows that failed go (default: into the output)').argParser(path),
  );
  addQueueFlags(command, false);
  addSwitch(command, '--overwrite', 'replace an output that exists (else it is refused)');
  command.addHelpText('after', EXAMPLES);
  command.action(async (flags: CollectFlags) => {
    requireFlags(flags, 'output');
    const { queue: _queue, job: name, parts, ...rest } = flags;
    if (name === undefined && command.getOptionValueSource('queue') === 'cli')
      throw new UsageError('missing: --job, as --queue has jobs by their names');
    if (name !== undefined && parts !== undefined && parts.length > 1)
      throw new UsageError(`--parts: found ${parts.length} beside --job, expected one folder`);
    await using source = name === undefined ? undefined : await queueOf(flags, context.signal);
    const { shards, rows, results, failed } = await collectJob({
      ...rest,
      ...(parts && { parts: source === undefined ? parts : (parts[0] ?? '') }),
      ...(source && { source }),
      signal: context.signal,
    });
    const several = results === rows ? '' : `, ${results} results`;
    const errors = failed === 0 ? '' : ` (${failed} with an error)`;
    context.say(
      `${rows} ${rows === 1 ? 'row' : 'rows'}${several}${errors} of ${shards} ${shards === 1 ? 'shard' : 'shards'}`,
    );
    context.exitCode = failed === 0 ? EXIT.fine : EXIT.rowErrors;
  });
}
