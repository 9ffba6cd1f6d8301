import type { Command } from 'commander';
import type { CommandContext } from './CommandContext.js';
import { longFlag, requireFlags } from './flags/commandFlags.js';
import { wholeNumber } from './flags/parsers.js';
import {
  MOST_CHIPS,
  planPartitioning,
  readChip,
  UsageError,
  writeFileAtomic,
  type Compression,
  type WeightFormat,
} from './library.js';
import { shapeOf } from './openModel.js';
import { describePartitioning, partitionPage } from './partitionReport.js';
import { checkCommandPaths } from './reportFiles.js';
import { checkStandardOutput } from './standardStreams.js';

/** The flags of `plan` for chips. */
export interface PlanChipsFlags {
  readonly model: string;
  readonly hardware: string;
  readonly promptTokens: number;
  readonly maxNewTokens: number;
  readonly batchSize?: number;
  readonly compressWeights: Compression | 'auto';
  readonly maxLatency?: number;
  readonly chips?: number | 'auto';
  readonly interconnect?: string;
  readonly json: boolean;
  readonly html?: string;
}

/** All other flags are of one machine. */
const KNOWN: Readonly<Record<keyof PlanChipsFlags, true>> = {
  model: true,
  hardware: true,
  promptTokens: true,
  maxNewTokens: true,
  batchSize: true,
  compressWeights: true,
  maxLatency: true,
  chips: true,
  interconnect: true,
  json: true,
  html: true,
};

export function addChipFlags(command: Command): void {
  const most = wholeNumber(1, MOST_CHIPS);
  command.optionsGroup('Many chips:');
  command.option(
    '--chips <n|auto>',
    'split the model over so many chips (auto: whatever is cheapest): layouts, latency and cost by Pope et al. (default: one machine)',
    (text) => (text === 'auto' ? text : most(text)),
  );
  command.option('--interconnect <name>', "how they are linked, of those in the chip's file (default: the first)");
}

/** `plan --chips`: how to split a model over chips. */
export async function planChips(flags: PlanChipsFlags, command: Command, context: CommandContext): Promise<void> {
  requireFlags(flags, 'model', 'promptTokens', 'chips');
  const others = Object.keys(flags).filter(
    (name) => !Object.hasOwn(KNOWN, name) && command.getOptionValueSource(name) === 'cli',
  );
  if (others.length > 0)
    throw new UsageError(
      `--chips: found ${others.map(longFlag).join(', ')} beside it, which is of plans for one machine`,
    );
  const { model, hardware, html, json, chips, interconnect, batchSize, maxLatency } = flags;
  if (html === undefined) checkStandardOutput();
  await checkCommandPaths({ model, read: { hardware }, reports: { html }, trace: undefined });
  const chip = await readChip(hardware);
  const request = {
    chip,
    interconnect,
    shape: await shapeOf(model, context),
    workload: { promptTokens: flags.promptTokens, newTokens: flags.maxNewTokens },
    chips,
    batchSize,
    weights: weightFormats(flags.compressWeights),
    maxLatencySeconds: maxLatency,
  };
  const document = await context.endingAtOnce(() => planPartitioning(request));
  if (html !== undefined) await writeFileAtomic(html, await partitionPage(document));
  await context.print(json ? `${JSON.stringify(document, undefined, 2)}\n` : describePartitioning(document));
}

function weightFormats(compression: Compression | 'auto'): readonly WeightFormat[] {
  if (compression === '4bit')
    throw new UsageError(
      '--compress-weights: found 4bit, expected none (bfloat16), 8bit (int8) or auto beside --chips',
    );
  if (compression === 'auto') return ['bfloat16', 'int8'];
  return compression === '8bit' ? ['int8'] : ['bfloat16'];
}
