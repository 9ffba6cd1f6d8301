import { Option, type Command } from 'commander';
import type { CommandContext } from './CommandContext.js';
import { formatBytes, knownModel, knownModels, pullModel, UsageError } from './library.js';
import { ProgressMeter, type ProgressMode } from './ProgressMeter.js';
import { checkStandardOutput } from './standardOutput.js';
import { formatTable } from './table.js';
import { addSwitch } from './flags/commandFlags.js';

interface PullFlags {
  readonly list: boolean;
  readonly progress: ProgressMode;
}

const MIB = 2 ** 20;

export function addPull(program: Command, context: CommandContext): void {
  const command = program.command('pull').description('Fetches a known model into the cache, checks its sha256 and prints its path.');
  command.argument('[id]', 'see --list');
  addSwitch(command, '--list', 'list the known models');
  command.addOption(new Option('--progress <when>', 'on stderr; auto: if it is a terminal').choices(['auto', 'on', 'off']).default('auto'));
  command.action((id: string | undefined, flags: PullFlags) => pull(id, flags, context));
}

async function pull(id: string | undefined, flags: PullFlags, context: CommandContext): Promise<void> {
  if (flags.list === (id !== undefined)) throw new UsageError('pull: give either an ID or --list');
  if (id === undefined) {
    checkStandardOutput();
    const rows = knownModels.map((model) => [model.id, formatBytes(model.bytes), model.license, model.description]);
    await context.print(formatTable([['id', 'size', 'licence', 'what'], ...rows]));
    return;
  }
  const known = knownModel(id);
  if (known === undefined) {
    throw new UsageError(`pull: found ${JSON.stringify(id)}, expected one of the known models: ${knownModels.map((model) => model.id).join(', ')}`);
  }
  const meter = new ProgressMeter(flags.progress, process.stderr);
  const path = await pullModel(known, {
    signal: context.signal,
    verify: true,
    onProgress: ({ source, bytes, totalBytes }) =>
      meter.show(`fetching ${known.id}`, { done: Math.ceil(bytes / MIB), total: Math.ceil(totalBytes / MIB), words: `MiB from ${source}` }),
  }).finally(() => meter.stop());
  await context.print(`${path}\n`);
}
