import type { Command } from 'commander';
import type { CommandContext } from './CommandContext.js';
import { addCompletionFlags, completionOptions, type CompletionFlags } from './flags/answerFlags.js';
import { addPromptFlags } from './flags/promptFlags.js';
import { addRowFileFlags, addRowJobFlags, type RowJobFlags } from './flags/rowJobFlags.js';
import { runRowJob } from './rowJob.js';

export function addScore(program: Command, context: CommandContext): void {
  const command = program
    .command('score')
    .description("Tells how likely each of a row's `completions` is after its prompt: for evaluation, for reranking.");
  addRowFileFlags(command);
  command.optionsGroup('Completions:');
  addCompletionFlags(command);
  addPromptFlags(command, false);
  addRowJobFlags(command);
  command.action((flags: RowJobFlags & CompletionFlags) => {
    const options = completionOptions(flags);
    return runRowJob(flags, new Set(command.options.map(({ long }) => long ?? '')), context, {
      name: 'score',
      expected: { maxNewTokens: 1 },
      task: ({ reasoning: _none, toolChoice: _choice, parallelToolCalls: _several, ...common }) => ({
        score: { ...options, ...common },
      }),
      answer: (engine, composition) => ({
        score: (rows, rowsOptions) => engine.score(rows, { ...rowsOptions, ...composition }),
      }),
    });
  });
}
