import { cpus, totalmem } from 'node:os';
import { Option, type Command } from 'commander';
import { benchBatch, type BatchFigures, type BenchWork } from './benchBatch.js';
import type { CommandContext } from './CommandContext.js';
import { addSwitch, requireFlags } from './flags/commandFlags.js';
import { addMachineFlags, addModelFlag, engineOptions, type EngineFlags } from './flags/engineFlags.js';
import { wholeNumber, wholeNumbers } from './flags/parsers.js';
import { BLOCK_LIMITS, Engine, formatBytes, MemoryBudgetError, readModel, UsageError } from './library.js';
import { pulledModel } from './openModel.js';
import { ProgressMeter } from './ProgressMeter.js';
import { checkStandardOutput } from './standardStreams.js';
import { formatTable } from './table.js';

interface BenchFlags extends EngineFlags {
  readonly batchSizes: readonly number[];
  readonly promptTokens: number;
  readonly maxNewTokens: number;
  readonly seconds: number;
  readonly json: boolean;
}

/** The document of `bench --json`. */
interface BenchReport {
  readonly machine: {
    readonly processor: string;
    readonly processors: number;
    readonly memoryBytes: number;
    readonly node: string;
  };
  readonly model: string;
  readonly promptTokens: number;
  readonly maxNewTokens: number;
  readonly results: readonly (BatchFigures | { readonly batchSize: number; readonly error: string })[];
}

export function addBench(program: Command, context: CommandContext): void {
  const command = program
    .command('bench')
    .description(
      'Measures this machine with this model: prompt and generated tokens a second for several batch sizes.',
    );
  addModelFlag(command);
  command.addOption(
    new Option('--batch-sizes <n,…>', 'rows that are generated at once')
      .argParser(wholeNumbers(1, BLOCK_LIMITS.batchSize))
      .default([1, 8, 32, 64], '1,8,32,64'),
  );
  command.option('--prompt-tokens <n>', 'tokens of each prompt, at random', wholeNumber(1), 64);
  command.option('--max-new-tokens <n>', 'new tokens of each row', wholeNumber(2), 32);
  command.option(
    '--seconds <n>',
    'most time in all; a batch size that is not through when its share is over is cut off',
    wholeNumber(1, 86_400),
    60,
  );
  addSwitch(command, '--json', 'print one JSON document, not a table');
  addMachineFlags(command);
  command.action((flags: BenchFlags) => bench(flags, context));
}

async function bench(flags: BenchFlags, context: CommandContext): Promise<void> {
  requireFlags(flags, 'model');
  checkStandardOutput();
  const { signal } = context;
  const { promptTokens, maxNewTokens } = flags;
  const meter = new ProgressMeter('auto', process.stderr);
  try {
    await Engine.check(engineOptions(flags, flags.model));
    const model = await pulledModel(flags.model, signal, meter);
    const { decoder } = await readModel(model);
    if (promptTokens + maxNewTokens > decoder.contextTokens) {
      throw new UsageError(
        `--prompt-tokens, --max-new-tokens: found ${promptTokens + maxNewTokens} tokens in all, expected at most ${decoder.contextTokens}, the model's context`,
      );
    }
    const sizes = [...new Set(flags.batchSizes)].sort((a, b) => a - b);
    const results: (BatchFigures | { batchSize: number; error: string })[] = [];
    const deadline = performance.now() + flags.seconds * 1000;
    for (const [at, batchSize] of sizes.entries()) {
      meter.show('batch sizes', { done: at, total: sizes.length, words: `${batchSize} rows` });
      const share = Math.max(1, (deadline - performance.now()) / 1000 / (sizes.length - at));
      const work: BenchWork = {
        batchSize,
        promptTokens,
        maxNewTokens,
        vocabularySize: decoder.vocabularySize,
        seconds: share,
      };
      try {
        results.push(await benchBatch({ ...engineOptions(flags, model), policy: 'default' }, work, signal));
      } catch (error) {
        // A batch that is too big for the memory is an answer, unless the smallest is.
        if (!(error instanceof MemoryBudgetError) || at === 0) throw error;
        results.push({ batchSize, error: error.message });
      }
    }
    meter.stop();
    const report: BenchReport = {
      machine: {
        processor: cpus()[0]?.model.trim() ?? 'unknown',
        processors: cpus().length,
        memoryBytes: totalmem(),
        node: process.versions.node,
      },
      model,
      promptTokens,
      maxNewTokens,
      results,
    };
    await context.print(flags.json ? `${JSON.stringify(report, null, 2)}\n` : formatReport(report));
  } finally {
    meter.stop();
  }
}

function formatReport({ machine, model, promptTokens, maxNewTokens, results }: BenchReport): string {
  const head = ['rows', 'prompt tokens/s', 'generated tokens/s', 'ms a step', 'memory', 'rounds'];
  const rate = (value: number | null): string => (value === null ? '-' : value.toFixed(1));
  const lines = results.map((result) =>
    'error' in result
      ? [String(result.batchSize), '-', '-', '-', 'too little', '0']
      : [
          String(result.batchSize),
          rate(result.promptTokensPerSecond),
          rate(result.generatedTokensPerSecond),
          rate(result.secondsPerStep === null ? null : result.secondsPerStep * 1000),
          formatBytes(Object.values(result.memoryBytes).reduce((sum, bytes) => sum + bytes, 0)),
          result.complete ? String(result.rounds) : 'cut off',
        ],
  );
  const title = `${model}: ${promptTokens} prompt tokens, ${maxNewTokens} new ones a row; ${machine.processor}, ${machine.processors} processors, ${formatBytes(machine.memoryBytes)}`;
  const errors = results.flatMap((result) =>
    'error' in result ? [`${result.batchSize} rows: ${result.error}\n`] : [],
  );
  return `${title}\n\n${formatTable([head, ...lines])}${errors.join('')}`;
}
