import { Option, type Command } from 'commander';
import type { CommandContext } from './CommandContext.js';
import { addSwitch } from './flags/commandFlags.js';
import { addProgressFlag } from './flags/logFlags.js';
import { path, size, wholeNumber } from './flags/parsers.js';
import { BLOCK_LIMITS, refreshProfile, writeFileAtomic, type HardwareProfile, type ProfileOptions } from './library.js';
import { describeProfile } from './profileReport.js';
import { ProgressMeter, type ProgressMode } from './ProgressMeter.js';
import { checkWritable } from './reportFiles.js';

interface ProfileFlags {
  readonly output?: string;
  readonly json: boolean;
  readonly disk?: string;
  readonly diskSize?: number;
  readonly gpuMemory: number;
  readonly threads?: number;
  readonly quick: boolean;
  readonly progress: ProgressMode;
}

/** The budget of --quick: a second or two. */
const QUICK_BUDGET = 0.2;

export function addProfile(program: Command, context: CommandContext): void {
  const command = program
    .command('profile')
    .description(
      'Measures this machine (memory, disk, products, attention) for plan and generate, in about ten seconds. Best while nothing else runs.',
    );
  command.addOption(
    new Option('--output <file>', 'write the hardware file here (default: kept in the cache folder only)').argParser(
      path,
    ),
  );
  command.addOption(
    new Option(
      '--disk <folder>',
      'folder of repacked models and spill files, whose disk is measured (default: the cache folder)',
    ).argParser(path),
  );
  command.option(
    '--disk-size <size>',
    'most that is written there meanwhile; 0: leave the disk out (default: 256MiB)',
    sizeOrNone,
  );
  command.option(
    '--gpu-memory <size>',
    'memory of the first GPU that runs may use, 64MiB at least: the GPU is measured too, in four seconds more (0: it is not)',
    sizeOrNone,
    0,
  );
  command.option(
    '--threads <n>',
    'threads that compute (default: all that this process may use)',
    wholeNumber(1, BLOCK_LIMITS.threads),
  );
  addSwitch(command, '--quick', 'a fifth of the time, and less certain');
  addSwitch(command, '--json', 'print the hardware file, not a table');
  addProgressFlag(command);
  command.action((flags: ProfileFlags) => profile(flags, context));
}

async function profile(flags: ProfileFlags, context: CommandContext): Promise<void> {
  const { output, disk, diskSize, gpuMemory, threads } = flags;
  if (output !== undefined) await checkWritable(output);
  const started = performance.now();
  const measured = await measure(
    {
      disk,
      gpuMemory,
      ...(diskSize !== undefined && { diskBytes: diskSize }),
      threads,
      ...(flags.quick && { budget: QUICK_BUDGET }),
    },
    flags.progress,
    context,
  );
  const text = `${JSON.stringify(measured, undefined, 2)}\n`;
  if (output !== undefined) await writeFileAtomic(output, text);
  await context.print(flags.json ? text : describeProfile(measured, (performance.now() - started) / 1000));
}

async function measure(
  options: ProfileOptions,
  mode: ProgressMode,
  { signal }: CommandContext,
): Promise<HardwareProfile> {
  const meter = new ProgressMeter(mode, process.stderr);
  try {
    return await refreshProfile({
      ...options,
      signal,
      onProgress: ({ done, total, what }) => meter.show('measuring this machine', { done, total, words: what }),
    });
  } finally {
    meter.stop();
  }
}

function sizeOrNone(text: string): number {
  return /^0+$/.test(text) ? 0 : size(text);
}
