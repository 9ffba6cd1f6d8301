import type { Command } from 'commander';
import type { CommandContext } from './CommandContext.js';
import { addLabelFlags, labelOptions, type LabelFlags } from './flags/answerFlags.js';
import { addCascadeFlags } from './flags/cascadeFlags.js';
import { addPromptFlags } from './flags/promptFlags.js';
import { addRowFileFlags, addRowJobFlags, addTruthFlag, type RowJobFlags } from './flags/rowJobFlags.js';
import { runRowJob } from './rowJob.js';

const EXAMPLES = `
Examples:
  spillway classify --model smollm2-135m-instruct --input reviews.csv \\
    --output labelled.csv --labels ' positive, negative' \\
    --prompt-template 'Review: {{text}} Sentiment:' --label-prior N/A
  spillway classify --model hf:MoritzLaurer/deberta-v3-base-zeroshot-v2.0 --input tickets.csv \\
    --output sorted.csv --columns prompt=body --labels billing,delivery --hypothesis-template 'This text is about {}.'`;

export function addClassify(program: Command, context: CommandContext): void {
  const command = program
    .command('classify')
    .description(
      'Tells for each row of a file how likely labels are after its prompt, one pass over a row serving all of them; by a model with a head that classifies its own labels, or, by one of NLI, whether a hypothesis of each label follows.',
    );
  addRowFileFlags(command);
  command.optionsGroup('Labels:');
  addLabelFlags(command);
  addPromptFlags(command, false);
  addRowJobFlags(command);
  addTruthFlag(command);
  addCascadeFlags(command);
  command.addHelpText('after', EXAMPLES);
  command.action(async (flags: RowJobFlags & LabelFlags) => {
    const options = await labelOptions(flags, context.signal);
    await runRowJob(flags, new Set(command.options.map(({ long }) => long ?? '')), context, {
      name: 'classify',
      expected: { maxNewTokens: 1 },
      task: ({ reasoning: _none, toolChoice: _choice, parallelToolCalls: _several, ...common }) => ({
        classify: { ...options, ...common },
      }),
      answer: (engine, composition) => ({
        classify: (rows, rowsOptions) => engine.classify(rows, { ...rowsOptions, ...composition }),
      }),
    });
  });
}
