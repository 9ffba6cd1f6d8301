import { existsSync } from 'node:fs';
import { Option, type Command } from 'commander';
import {
  BLOCK_LIMITS,
  BLOCK_SCHEDULES,
  KEPT_SHARE,
  readHardwareFile,
  SCHEDULE_NAMES,
  UsageError,
  WEIGHT_COMPRESSIONS,
  type EngineOptions,
  type Policy,
  type ScheduleName,
} from '../library.js';
import { decimal, path, wholeNumber, type FlagParser } from './parsers.js';
import { readPolicyFile } from './readPolicyFile.js';

export interface CacheFlags {
  readonly compressCache?: 'none' | '8bit' | '4bit' | 'auto';
  /** 1 is off. */
  readonly sparseAttention: number;
}

export interface PlanFlags {
  readonly policy: string;
  readonly hardware: string;
  readonly schedule?: ScheduleName;
  readonly batchSize?: number;
  readonly batches?: number;
  readonly overlap: 'on' | 'off';
  readonly learn: 'on' | 'off';
}

/**
 * What the flags say to `Engine.open`, with the files that they name read; a flag overrides the policy.
 * @throws UsageError, PlanFileError or another ModelFileError, naming file and field
 */
export async function planOptions({
  policy,
  hardware,
  schedule,
  batchSize,
  batches,
  learn,
}: PlanFlags): Promise<Partial<EngineOptions>> {
  return {
    policy: await readPolicy(policy),
    ...(hardware === 'this' ? {} : { hardware: await readHardwareFile(hardware) }),
    learn: learn === 'on',
    ...(schedule === undefined ? {} : { schedule }),
    ...(batchSize === undefined ? {} : { batchSize }),
    ...(batches === undefined ? {} : { batches }),
  };
}

/** A bare word that is neither a name nor a file is more likely a name misspelt. */
async function readPolicy(nameOrFile: string): Promise<'auto' | 'default' | Policy> {
  if (nameOrFile === 'auto' || nameOrFile === 'default') return nameOrFile;
  if (!/[\\/.]/.test(nameOrFile) && !existsSync(nameOrFile)) {
    throw new UsageError(
      `--policy: found ${JSON.stringify(nameOrFile)}, expected auto, default, or a file such as \`plan --json\` writes`,
    );
  }
  return readPolicyFile(nameOrFile);
}

const share = decimal(KEPT_SHARE, ', or off');
const shareOrOff: FlagParser<number> = (text) => (text === 'off' ? 1 : share(text));

/**
 * Compression.
 * @param planned whether there is a plan that can choose a compression
 */
export function addMemoryFlags(command: Command, planned = false): void {
  const auto = planned ? ['auto'] : [];
  const orAuto = planned ? ', auto (whatever is fastest)' : '';
  command.optionsGroup('Compression:');
  command.addOption(
    new Option(
      '--compress-weights <kind>',
      `matrices in fewer bits than their file has, which changes results: none, 8bit (groups of 32), 4bit (groups of 64; embeddings and head 8bit)${orAuto} (default: none, or what the policy file says)`,
    ).choices([...WEIGHT_COMPRESSIONS, ...auto]),
  );
  command.addOption(
    new Option(
      '--compress-cache <kind>',
      `round the KV cache to so many bits, which changes results: none, 4bit, 8bit${orAuto} (default: none, or what the policy file says)`,
    ).choices(['none', '4bit', '8bit', ...auto]),
  );
  command.addOption(
    new Option(
      '--sparse-attention <f>',
      'share of the tokens before it whose values a generated token takes, those of highest score, which changes results; off takes all',
    )
      .default(1, 'off')
      .argParser(shareOrOff),
  );
}

export function addPlanFlags(command: Command): void {
  command.optionsGroup('Plan:');
  command.addOption(
    new Option(
      '--policy <auto|default|file>',
      'how blocks are sized and placed. auto: planned for this machine and these rows, by lossless means; default: 64 rows, all in memory if it fits; or a file such as `plan --json` writes. Other flags override it',
    )
      .default('auto')
      .argParser(path),
  );
  command.addOption(
    new Option(
      '--hardware <this|file>',
      'the machine to plan for: this one, measured once; or a file that profile wrote here',
    )
      .default('this')
      .argParser(path),
  );
  command.addOption(
    new Option(
      '--schedule <name>',
      `order of the work: ${SCHEDULE_NAMES.map((name) => `${name} (${BLOCK_SCHEDULES[name].summary})`).join(', ')} (default: the best, or what the policy file says)`,
    ).choices(SCHEDULE_NAMES),
  );
  command.option(
    '--batch-size <n>',
    'most rows in a batch (default: what the policy says)',
    wholeNumber(1, BLOCK_LIMITS.batchSize),
  );
  command.option(
    '--batches <n>',
    'batches that share one pass over the layers (default: what the policy says)',
    wholeNumber(1, BLOCK_LIMITS.batches),
  );
  command.addOption(
    new Option(
      '--overlap <on|off>',
      'on: transfers run while something computes; off: one task after another, to measure what that gains',
    )
      .choices(['on', 'off'])
      .default('on'),
  );
  command.addOption(
    new Option(
      '--learn <on|off>',
      'on: predictions on this machine are corrected by what earlier runs took, and this run corrects later ones; off: neither',
    )
      .choices(['on', 'off'])
      .default('on'),
  );
}
