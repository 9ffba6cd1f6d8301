import { basename, dirname, resolve } from 'node:path';
import { Option, type Command } from 'commander';
import type { CommandContext } from './CommandContext.js';
import { addSwitch } from './flags/commandFlags.js';
import { path } from './flags/parsers.js';
import {
  cachedModels,
  fileFailure,
  formatBytes,
  removeCachedModel,
  removeRepackedStore,
  repackedStores,
  SpillwayError,
  UsageError,
} from './library.js';
import { checkStandardOutput } from './standardStreams.js';
import { formatTable } from './table.js';

interface ModelsFlags {
  readonly remove?: string;
  readonly json: boolean;
}

export function addModels(program: Command, context: CommandContext): void {
  const command = program
    .command('models')
    .description(
      'Lists the models that were fetched, and those that runs have repacked to read them from disk, with sizes and paths; removes one.',
    );
  command.addOption(
    new Option(
      '--remove <name>',
      'remove this one, with all of its revisions; or a repacked one, by its path (default: none)',
    ).argParser(path),
  );
  addSwitch(command, '--json', 'print one JSON document, not tables');
  command.action((flags: ModelsFlags) => models(flags, context));
}

async function models({ remove, json }: ModelsFlags, context: CommandContext): Promise<void> {
  if (json && remove !== undefined)
    throw new UsageError('--json: found it beside --remove, which lists nothing, expected one of them');
  checkStandardOutput();
  const repacked = await repackedStores();
  if (remove !== undefined) {
    const store = repacked.find(({ path: place }) => place === resolve(remove));
    if (store !== undefined) {
      await removeRepackedStore(store).catch((error: unknown) => {
        throw fileFailure(remove, 'removed', error);
      });
      context.say(`removed ${store.path} (${formatBytes(store.bytes)})`);
      return;
    }
    const removed = await removeCachedModel(remove).catch((error: unknown) => {
      throw error instanceof SpillwayError ? error : fileFailure(remove, 'removed', error);
    });
    context.say(`removed ${removed.path} (${formatBytes(removed.bytes)})`);
    return;
  }
  const rows = await cachedModels();
  if (json) {
    await context.print(`${JSON.stringify({ models: rows, repacked }, undefined, 2)}\n`);
    return;
  }
  if (repacked.length > 0)
    await context.print(
      formatTable([
        ['repacked, to be read from disk', 'size', 'age', 'where'],
        ...repacked.map(({ model, bytes, made, path: place }) => [
          model === undefined ? 'of an unknown model' : shortName(model),
          formatBytes(bytes),
          ageOf(made),
          place,
        ]),
      ]) + (rows.length > 0 ? '\n' : ''),
    );
  if (rows.length === 0) context.say('no model has been fetched; `spillway pull --list` shows some worth having');
  else
    await context.print(
      formatTable([
        ['name', 'size', 'where'],
        ...rows.map(({ name, bytes, path: place }) => [name, formatBytes(bytes), place]),
      ]),
    );
}

/**
 * Gives the name that people call a model by, from the path of its first file: the repository of the hub, else the
 * file, or its folder.
 */
function shortName(path: string): string {
  const [, owner, repo] = /\/models--([^/]+?)--([^/]+)\/snapshots\//.exec(path) ?? [];
  const file = basename(path);
  if (owner !== undefined && repo !== undefined) return `hf:${owner}/${repo}${/\.gguf$/i.test(file) ? `:${file}` : ''}`;
  return /\.gguf$/i.test(file) ? file : basename(dirname(path));
}

const DAY_MILLISECONDS = 86_400_000;

function ageOf(made: number): string {
  const days = Math.floor((Date.now() - made) / DAY_MILLISECONDS);
  return days < 1 ? 'today' : `${days} ${days === 1 ? 'day' : 'days'}`;
}
