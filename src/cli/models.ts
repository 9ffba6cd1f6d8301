import { Option, type Command } from 'commander';
import type { CommandContext } from './CommandContext.js';
import { path } from './flags/parsers.js';
import { cachedModels, fileFailure, formatBytes, removeCachedModel, SpillwayError } from './library.js';
import { checkStandardOutput } from './standardStreams.js';
import { formatTable } from './table.js';

interface ModelsFlags {
  readonly remove?: string;
}

export function addModels(program: Command, context: CommandContext): void {
  const command = program
    .command('models')
    .description('Lists the models that were fetched, with sizes and paths; removes one.');
  command.addOption(
    new Option('--remove <name>', 'remove this one, with all of its revisions (default: none)').argParser(path),
  );
  command.action(({ remove }: ModelsFlags) => models(remove, context));
}

async function models(remove: string | undefined, context: CommandContext): Promise<void> {
  checkStandardOutput();
  if (remove !== undefined) {
    const removed = await removeCachedModel(remove).catch((error: unknown) => {
      throw error instanceof SpillwayError ? error : fileFailure(remove, 'removed', error);
    });
    context.say(`removed ${removed.path} (${formatBytes(removed.bytes)})`);
    return;
  }
  const rows = await cachedModels();
  if (rows.length === 0) context.say('no model has been fetched; `spillway pull --list` shows some worth having');
  else
    await context.print(
      formatTable([
        ['name', 'size', 'where'],
        ...rows.map(({ name, bytes, path: place }) => [name, formatBytes(bytes), place]),
      ]),
    );
}
