import type { Command } from 'commander';
import type { CommandContext } from './CommandContext.js';
import { addChunkFlags, chunkOptions, type ChunkFlags } from './flags/chunkFlags.js';
import { addFormatFlags, formatFiles, formatOptions, type FormatFlags } from './flags/formatFlags.js';
import { addCascadeFlags } from './flags/cascadeFlags.js';
import { addPromptFlags } from './flags/promptFlags.js';
import { addRowFileFlags, addRowJobFlags, addTruthFlag, type RowJobFlags } from './flags/rowJobFlags.js';
import { addSamplingFlags, samplingOptions, type SamplingFlags } from './flags/samplingFlags.js';
import { runRowJob } from './rowJob.js';

interface GenerateFlags extends RowJobFlags, SamplingFlags, FormatFlags, ChunkFlags {}

const EXAMPLES = `
Examples:
  spillway generate --model smollm2-135m-instruct \\
    --input questions.txt --output answers.jsonl
  spillway generate --model smollm2-135m-instruct --input tickets.csv \\
    --output answers.csv --columns prompt=question --chat on --max-new-tokens 32
  spillway generate ... --resume        goes on with a run that was cut off`;

export function addGenerate(program: Command, context: CommandContext): void {
  const command = program
    .command('generate')
    .description('Answers each row of a file of prompts. A run that was cut off goes on with --resume.');
  addRowFileFlags(command);
  addPromptFlags(command);
  addFormatFlags(command);
  addChunkFlags(command, true);
  addSamplingFlags(command);
  addRowJobFlags(command);
  addTruthFlag(command);
  addCascadeFlags(command);
  command.addHelpText('after', EXAMPLES);
  command.action((flags: GenerateFlags) => {
    const options = { ...samplingOptions(flags), ...chunkOptions(flags) };
    return runRowJob(flags, new Set(command.options.map(({ long }) => long ?? '')), context, {
      name: 'generate',
      expected: options,
      samples: flags.samples,
      files: formatFiles(flags),
      // How far confidence is to be relied on shows where it is said.
      read: async (signal) => ({
        ...(flags.truth !== undefined && { confidence: true }),
        ...(await formatOptions(flags, signal)),
      }),
      task: (common) => ({ generate: { ...options, ...common } }),
      answer: (engine, composition) => ({
        generate: (rows, rowsOptions) => engine.generate(rows, { ...rowsOptions, ...composition }),
      }),
    });
  });
}
