import { Option, type Command } from 'commander';
import type { CommandContext } from './CommandContext.js';
import { addOnOff, isOn, type OnOff } from './flags/answerFlags.js';
import { addPromptFlags } from './flags/promptFlags.js';
import { addRowFileFlags, addRowJobFlags, type RowJobFlags } from './flags/rowJobFlags.js';
import { wholeNumber } from './flags/parsers.js';
import { RUN_OPTIONS, type EmbedOptions } from './library.js';
import { runRowJob } from './rowJob.js';

interface EmbedFlags extends RowJobFlags {
  readonly pooling: NonNullable<EmbedOptions['pooling']>;
  readonly dimensions?: number;
  readonly normalize: OnOff;
  readonly encoding: NonNullable<EmbedOptions['encoding']>;
}

export function addEmbed(program: Command, context: CommandContext): void {
  const command = program
    .command('embed')
    .description('Makes an embedding of each row of a file: its hidden states behind the final norm, pooled.');
  addRowFileFlags(command);
  command.optionsGroup('Embeddings:');
  command.addOption(
    new Option(
      '--pooling <which>',
      "last: the last token's hidden state; mean: of all tokens; cls: the first one's; auto: what the model's files say, else last",
    )
      .choices(RUN_OPTIONS.pooling.among)
      .default(RUN_OPTIONS.pooling.fallback),
  );
  command.option(
    '--dimensions <n>',
    'only the first ones, for models that were trained for it (default: all)',
    wholeNumber(1),
  );
  addOnOff(command, '--normalize', 'to a length of 1', 'on');
  command.addOption(
    new Option('--encoding <form>', 'numbers, or float32 in base64')
      .choices(RUN_OPTIONS.encoding.among)
      .default(RUN_OPTIONS.encoding.fallback),
  );
  addPromptFlags(command, false);
  addRowJobFlags(command);
  command.action((flags: EmbedFlags) => {
    const { pooling, dimensions, encoding } = flags;
    const options = {
      pooling,
      encoding,
      normalize: isOn(flags.normalize),
      ...(dimensions !== undefined && { dimensions }),
    };
    return runRowJob(flags, new Set(command.options.map(({ long }) => long ?? '')), context, {
      name: 'embed',
      expected: { maxNewTokens: 1 },
      task: ({ reasoning: _none, ...common }) => ({ embed: { ...options, ...common } }),
      answer: (engine, composition) => ({
        embed: (rows, rowsOptions) => engine.embed(rows, { ...rowsOptions, ...composition }),
      }),
    });
  });
}
