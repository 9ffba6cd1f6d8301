import { Option, type Command } from 'commander';
import type { CommandContext } from './CommandContext.js';
import { addOnOff, isOn, labelList, type OnOff } from './flags/answerFlags.js';
import { addPromptFlags } from './flags/promptFlags.js';
import { addRowFileFlags, addRowJobFlags, type RowJobFlags } from './flags/rowJobFlags.js';
import { path } from './flags/parsers.js';
import { textOf } from './flags/textFiles.js';
import { checkJobOptions, UsageError, type ClassifyOptions } from './library.js';
import { runRowJob } from './rowJob.js';

interface ClassifyFlags extends RowJobFlags {
  readonly labels?: readonly string[];
  readonly labelsFile?: string;
  readonly labelEnd: OnOff;
  readonly labelPrior?: string;
}

const EXAMPLES = `
Examples:
  spillway classify --model smollm2-135m-instruct --input reviews.csv \\
    --output labelled.csv --labels positive,negative \\
    --prompt-template 'Review: {{text}} Sentiment:' --label-prior N/A`;

export function addClassify(program: Command, context: CommandContext): void {
  const command = program
    .command('classify')
    .description(
      'Tells for each row of a file how likely labels are behind its prompt. One pass over a row serves all of them.',
    );
  addRowFileFlags(command);
  command.optionsGroup('Labels:');
  command.addOption(
    new Option(
      '--labels <a,b,…>',
      "what rows are told apart by, as it would stand behind the prompt; a comma in a label is written twice (default: a row's own `labels`)",
    ).argParser(labelList),
  );
  command.addOption(new Option('--labels-file <file>', 'the same, a label a line').argParser(path));
  addOnOff(
    command,
    '--label-end',
    "the end token counts as each label's last: `Yes` is then not the beginning of `Yes, but`",
  );
  command.option(
    '--label-prior <p,q,…|text>',
    'what labels are likely to be whatever a row says: probabilities are divided by it. Numbers, or a text that says nothing, such as N/A, as a prompt (default: none)',
  );
  addPromptFlags(command, false);
  addRowJobFlags(command);
  command.addHelpText('after', EXAMPLES);
  command.action(async (flags: ClassifyFlags) => {
    const options = await classifyOptions(flags, context.signal);
    await runRowJob(flags, new Set(command.options.map(({ long }) => long ?? '')), context, {
      name: 'classify',
      expected: { maxNewTokens: 1 },
      task: ({ reasoning: _none, ...common }) => ({ classify: { ...options, ...common } }),
      answer: (engine, composition) => ({
        classify: (rows, rowsOptions) => engine.classify(rows, { ...rowsOptions, ...composition }),
      }),
    });
  });
}

async function classifyOptions(
  { labels: given, labelsFile, labelEnd, labelPrior }: ClassifyFlags,
  signal: AbortSignal,
): Promise<ClassifyOptions> {
  if (given && labelsFile !== undefined)
    throw new UsageError('--labels-file: found it beside --labels, expected one of them');
  const labels =
    labelsFile === undefined
      ? given
      : (await textOf(undefined, labelsFile, signal))?.split(/\r?\n/).filter((line) => line.trim() !== '');
  // Before a model is read.
  if (labels) checkJobOptions({ classify: { labels } });
  if (labelPrior !== undefined && !labels)
    throw new UsageError('--label-prior: found it without labels, expected --labels or --labels-file beside it');
  return {
    ...(labels && { labels }),
    labelEnd: isOn(labelEnd),
    ...(labelPrior !== undefined && { labelPrior: priorOf(labelPrior) }),
  };
}

/** Numbers, if all of it are some. */
function priorOf(text: string): readonly number[] | string {
  const parts = text.split(',').map((part) => part.trim());
  return parts.every((part) => /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(part)) ? parts.map(Number) : text;
}
