import type { Command } from 'commander';
import type { CommandContext } from './CommandContext.js';
import { addOnOff, isOn, type OnOff } from './flags/answerFlags.js';
import { addPromptFlags } from './flags/promptFlags.js';
import { addRowFileFlags, addRowJobFlags, type RowJobFlags } from './flags/rowJobFlags.js';
import { runRowJob } from './rowJob.js';

interface ScoreFlags extends RowJobFlags {
  readonly completionEnd: OnOff;
  readonly tokenLogprobs: OnOff;
}

export function addScore(program: Command, context: CommandContext): void {
  const command = program
    .command('score')
    .description("Tells how likely each of a row's `completions` is behind its prompt: for evaluation, for reranking.");
  addRowFileFlags(command);
  command.optionsGroup('Completions:');
  addOnOff(command, '--completion-end', "the end token counts as each completion's last");
  addOnOff(command, '--token-logprobs', "report each token's log-probability, too");
  addPromptFlags(command, false);
  addRowJobFlags(command);
  command.action((flags: ScoreFlags) => {
    const options = { completionEnd: isOn(flags.completionEnd), tokenLogprobs: isOn(flags.tokenLogprobs) };
    return runRowJob(flags, new Set(command.options.map(({ long }) => long ?? '')), context, {
      name: 'score',
      expected: { maxNewTokens: 1 },
      task: ({ reasoning: _none, ...common }) => ({ score: { ...options, ...common } }),
      answer: (engine, composition) => ({
        score: (rows, rowsOptions) => engine.score(rows, { ...rowsOptions, ...composition }),
      }),
    });
  });
}
