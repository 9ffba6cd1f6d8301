import { Option, type Command } from 'commander';
import { diagonalBlock, rowByRow, WEIGHT_COMPRESSIONS, zigZagBlock, type Schedule } from '../library.js';
import { onlyAvailable, wholeNumber } from './parsers.js';

export interface PlanFlags {
  readonly schedule: 'row' | 'zigzag' | 'diagonal';
  readonly batchSize?: number;
  readonly batches?: number;
  readonly overlap: 'on' | 'off';
}

const SCHEDULES: Readonly<Record<PlanFlags['schedule'], () => Schedule>> = { row: rowByRow, zigzag: zigZagBlock, diagonal: diagonalBlock };

export function scheduleOf(flags: PlanFlags): Schedule {
  return SCHEDULES[flags.schedule]();
}

const isSize = (text: string): boolean => /^\d/.test(text);
const isCompression = (text: string): boolean => ['4bit', '8bit', 'auto'].includes(text);

/**
 * Memory and plan flags. Of those that ask for another tier, compression or sparsity only the value that changes nothing is taken:
 * any other is refused with what there is.
 */
export function addMemoryFlags(command: Command): void {
  const add = (flags: string, help: string, fallback: string, known: (text: string) => boolean, why: string): void => {
    command.addOption(new Option(flags, help).default(fallback).argParser(onlyAvailable([fallback], known, why)));
  };
  command.optionsGroup('Memory and compression:');
  add('--gpu-memory <size>', 'most GPU memory', '0', isSize, 'Nothing is computed on a GPU so far');
  command.addOption(
    new Option('--compress-weights <kind>', 'matrices in fewer bits than their file has: 8bit (groups of 32), 4bit (groups of 64; embeddings and head 8bit)')
      .default('none').argParser(onlyAvailable(WEIGHT_COMPRESSIONS, isCompression, 'Nothing chooses a compression so far')),
  );
  add('--compress-cache <kind>', 'KV cache: none, 4bit, 8bit, auto', 'none', isCompression, 'The KV cache is not compressed so far');
  add('--sparse-attention <f>', 'fraction of the cache that attention reads', 'off', isSize, 'Attention reads the whole cache so far');
}

export function addPlanFlags(command: Command): void {
  command.optionsGroup('Plan:');
  command.addOption(new Option('--policy <auto|file>', 'how blocks are sized and placed').default('auto').argParser(onlyAvailable(['auto'], () => true, 'Policy files are not read so far')));
  command.addOption(
    new Option('--schedule <name>', 'order of the work: row (one batch to its end), zigzag (blocks of batches), diagonal (a finished row is replaced at once)')
      .choices(Object.keys(SCHEDULES)).default('diagonal'),
  );
  command.option('--batch-size <n>', 'most rows in a batch (default: chosen from model and memory)', wholeNumber(1, 4096));
  command.option('--batches <n>', 'batches that share one pass over the layers (default: 1 while all fits in memory)', wholeNumber(1, 256));
  command.addOption(
    new Option('--overlap <on|off>', 'on: transfers run while something computes; off: one task after another, to measure what that gains').choices(['on', 'off']).default('on'),
  );
}
