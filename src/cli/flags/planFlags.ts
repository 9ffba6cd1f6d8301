import { Option, type Command } from 'commander';
import { BLOCK_SCHEDULES, WEIGHT_COMPRESSIONS, type EngineOptions, type Policy, type Schedule } from '../library.js';
import { decimal, onlyAvailable, path, wholeNumber, type FlagParser } from './parsers.js';
import { policyOptions } from './policyFile.js';

export interface CacheFlags {
  readonly compressCache?: 'none' | '8bit' | '4bit';
  /** 1 is off. */
  readonly sparseAttention: number;
}

export interface PlanFlags {
  readonly policy: string;
  readonly schedule?: 'row' | 'zigzag' | 'diagonal';
  readonly batchSize?: number;
  readonly batches?: number;
  readonly overlap: 'on' | 'off';
}

/** The schedule of the flags, else that of the policy file, else the diagonal one. */
export function scheduleOf({ schedule }: PlanFlags, policy: Policy | undefined): Schedule {
  return BLOCK_SCHEDULES[schedule ?? policy?.schedule ?? 'diagonal']();
}

/** What of the policy file and the flags concerns the engine; a flag overrides the file. */
export function planOptions({ batchSize, batches }: PlanFlags, policy: Policy | undefined): Partial<EngineOptions> {
  return { ...(policy && policyOptions(policy)), ...(batchSize === undefined ? {} : { batchSize }), ...(batches === undefined ? {} : { batches }) };
}

const isSize = (text: string): boolean => /^\d/.test(text);
const isCompression = (text: string): boolean => ['4bit', '8bit', 'auto'].includes(text);

const share = decimal((f) => f > 0 && f <= 1, 'above 0 and at most 1, or off');
const shareOrOff: FlagParser<number> = (text) => (text === 'off' ? 1 : share(text));

/**
 * Memory and compression. A value that is known but not available yet is refused with what there is.
 */
export function addMemoryFlags(command: Command): void {
  command.optionsGroup('Memory and compression:');
  command.addOption(new Option('--gpu-memory <size>', 'most GPU memory').default('0').argParser(onlyAvailable(['0'], isSize, 'Nothing is computed on a GPU so far')));
  command.addOption(
    new Option('--compress-weights <kind>', 'matrices in fewer bits than their file has, which changes results: none, 8bit (groups of 32), 4bit (groups of 64; embeddings and head 8bit) (default: none, or what the policy file says)')
      .argParser(onlyAvailable(WEIGHT_COMPRESSIONS, isCompression, 'Nothing chooses a compression so far')),
  );
  const compressions = ['none', '4bit', '8bit'];
  command.addOption(
    new Option('--compress-cache <kind>', 'round the KV cache to so many bits, which changes results: none, 4bit, 8bit (default: none, or what the policy file says)')
      .argParser(onlyAvailable(compressions, isCompression, 'Nothing decides on the compression of the KV cache so far')),
  );
  command.addOption(
    new Option('--sparse-attention <f>', 'share of the tokens before it whose values a generated token takes, those of highest score, which changes results; off takes all')
      .default(1, 'off').argParser(shareOrOff),
  );
}

export function addPlanFlags(command: Command): void {
  command.optionsGroup('Plan:');
  command.addOption(new Option('--policy <auto|file>', 'how blocks are sized and placed: a file such as `plan --json` writes; other flags override it').default('auto').argParser(path));
  command.addOption(
    new Option('--schedule <name>', 'order of the work: row (one batch to its end), zigzag (blocks of batches), diagonal (a finished row is replaced at once) (default: diagonal, or what the policy file says)')
      .choices(Object.keys(BLOCK_SCHEDULES)),
  );
  command.option('--batch-size <n>', 'most rows in a batch (default: chosen from model and memory)', wholeNumber(1, 4096));
  command.option('--batches <n>', 'batches that share one pass over the layers (default: 1 while all fits in memory)', wholeNumber(1, 256));
  command.addOption(
    new Option('--overlap <on|off>', 'on: transfers run while something computes; off: one task after another, to measure what that gains').choices(['on', 'off']).default('on'),
  );
}
