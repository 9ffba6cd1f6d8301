import type { Command } from 'commander';
import type { CommandContext } from './CommandContext.js';
import {
  didYouMean,
  formatBytes,
  isModelName,
  knownModels,
  resolveModel,
  suggestedModels,
  UsageError,
} from './library.js';
import { showFetching } from './openModel.js';
import { ProgressMeter, type ProgressMode } from './ProgressMeter.js';
import { checkStandardOutput } from './standardStreams.js';
import { formatTable } from './table.js';
import { addSwitch } from './flags/commandFlags.js';
import { addProgressFlag } from './flags/logFlags.js';

interface PullFlags {
  readonly list: boolean;
  readonly progress: ProgressMode;
}

export function addPull(program: Command, context: CommandContext): void {
  const command = program
    .command('pull')
    .description('Fetches a model into its cache, or what changed of it, checks its hashes and prints its path.');
  command.argument('[name]', 'an id of --list, or hf:owner/repo[@revision][:file-or-quant]');
  addSwitch(command, '--list', 'list models worth having');
  addProgressFlag(command);
  command.addHelpText(
    'after',
    `
Examples:
  spillway pull smollm2-135m-instruct
  spillway pull hf:Qwen/Qwen3-4B-GGUF:Q4_K_M
  spillway pull hf:owner/repo@main:folder/file.gguf

The Hugging Face hub is met as its own tools do: HF_TOKEN, HF_ENDPOINT, HF_HOME,
HF_HUB_CACHE, HF_HUB_OFFLINE; the cache is the one that they share.`,
  );
  command.action((name: string | undefined, flags: PullFlags) => pull(name, flags, context));
}

async function pull(name: string | undefined, flags: PullFlags, context: CommandContext): Promise<void> {
  if (flags.list === (name !== undefined)) throw new UsageError('pull: give either a name or --list');
  if (name === undefined) {
    checkStandardOutput();
    const rows = [
      ...knownModels.map(({ id, bytes, license, description }) => [id, formatBytes(bytes), license, description]),
      ...suggestedModels.map(({ name: id, bytes, license, description }) => [
        id,
        `~${formatBytes(bytes)}`,
        license,
        description,
      ]),
    ];
    await context.print(formatTable([['name', 'size', 'licence', 'what for'], ...rows]));
    return;
  }
  if (!isModelName(name)) {
    const ids = knownModels.map((model) => model.id);
    throw new UsageError(
      `pull: found ${JSON.stringify(name)}, expected hf:OWNER/REPO, or one of the known models: ${ids.join(', ')}${didYouMean(name, ids)}`,
    );
  }
  const meter = new ProgressMeter(flags.progress, process.stderr);
  const path = await resolveModel(name, {
    signal: context.signal,
    verify: true,
    onProgress: showFetching(meter),
  }).finally(() => meter.stop());
  await context.print(`${path}\n`, true);
}
