import { InvalidArgumentError, Option, type Command } from 'commander';
import {
  checkJobOptions,
  RUN_OPTIONS,
  UsageError,
  type ClassifyOptions,
  type EmbedOptions,
  type Label,
  type ScoreOptions,
} from '../library.js';
import { gathering } from './commandFlags.js';
import { path, wholeNumber } from './parsers.js';
import { textOf } from './textFiles.js';

type OnOff = 'on' | 'off';

/** A flag that is on or off, and off if nothing is said. */
function addOnOff(command: Command, flag: string, help: string, standard: OnOff = 'off'): void {
  command.addOption(new Option(`${flag} <on|off>`, help).choices(['on', 'off']).default(standard));
}

function isOn(value: OnOff): boolean {
  return value === 'on';
}

/** A list `A,B,…`; a comma in one of them is written twice. */
function labelList(text: string): readonly string[] {
  const labels = text
    .replaceAll(',,', '\0')
    .split(',')
    .map((part) => part.replaceAll('\0', ','));
  if (labels.includes(''))
    throw new InvalidArgumentError(
      'Found an empty label, expected texts with a comma between each two (a comma in a label is written twice).',
    );
  return labels;
}

/** One label, `NAME=TEXT`: the text as it stands, blanks before it too. */
function namedLabel(text: string, before: readonly Label[] | undefined): readonly Label[] {
  const at = text.indexOf('=');
  if (at < 1 || at === text.length - 1)
    throw new InvalidArgumentError("Expected NAME=TEXT, such as 'spam= Yes': the name in results, and what is scored.");
  return [...(before ?? []), { name: text.slice(0, at), text: text.slice(at + 1) }];
}

/** The labels to tell rows apart by. */
export interface LabelFlags {
  readonly label?: readonly Label[];
  readonly labels?: readonly string[];
  readonly labelsFile?: string;
  readonly labelEnd: OnOff;
  readonly labelPrior?: string;
  readonly hypothesisTemplate?: string;
}

export function addLabelFlags(command: Command): void {
  command.addOption(
    new Option(
      '--labels <a,b,…>',
      "what rows are told apart by, as it would stand after the prompt; write a comma in a label twice (default: a row's own `labels`, or those that the model's head has)",
    ).argParser(labelList),
  );
  command.addOption(
    gathering(
      new Option(
        '--label <name=text>',
        "one label, by the name that results call it and its text, e.g. 'spam= Yes'; may be given several times (default: none)",
      ).argParser(namedLabel),
    ),
  );
  command.addOption(new Option('--labels-file <file>', 'the same, a label a line').argParser(path));
  addOnOff(
    command,
    '--label-end',
    "the end token counts as each label's last: `Yes` is then not the beginning of `Yes, but`",
  );
  command.option(
    '--hypothesis-template <text>',
    "of an NLI model: what may follow from a row's text, with {} for the label (default: This example is {}.)",
  );
  command.option(
    '--label-prior <p,q,…|text>',
    'how likely labels are whatever a row says, by which probabilities are divided: numbers, or a text that says nothing, such as N/A (default: none)',
  );
}

/** Turns the flags into `classify` options, with the file that they name read. @throws UsageError, JobFileError */
export async function labelOptions(
  { label, labels: list, labelsFile, labelEnd, labelPrior, hypothesisTemplate }: LabelFlags,
  signal: AbortSignal,
): Promise<ClassifyOptions> {
  const ways = { '--label': label, '--labels': list, '--labels-file': labelsFile };
  const [first, second] = Object.entries(ways).flatMap(([flag, value]) => (value === undefined ? [] : [flag]));
  if (second !== undefined) throw new UsageError(`${second}: found it beside ${first}, expected one of them`);
  const given: readonly Label[] | undefined = label ?? list;
  const labels =
    labelsFile === undefined
      ? given
      : (await textOf(['--labels-file', 'a file'], undefined, labelsFile, signal))
          ?.split(/\r?\n/)
          .filter((line) => line.trim() !== '');
  // Before a model is read.
  if (labels) checkJobOptions({ classify: { labels } });
  if (labelPrior !== undefined && !labels)
    throw new UsageError(
      '--label-prior: found it without labels, expected --labels, --label or --labels-file beside it',
    );
  return {
    ...(labels && { labels }),
    labelEnd: isOn(labelEnd),
    ...(hypothesisTemplate !== undefined && { hypothesisTemplate }),
    ...(labelPrior !== undefined && { labelPrior: priorOf(labelPrior) }),
  };
}

/** Numbers, if all of it are some. */
function priorOf(text: string): readonly number[] | string {
  const parts = text.split(',').map((part) => part.trim());
  return parts.every((part) => /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(part)) ? parts.map(Number) : text;
}

/** How completions of rows are scored. */
export interface CompletionFlags {
  readonly completionEnd: OnOff;
  readonly tokenLogprobs: OnOff;
}

export function addCompletionFlags(command: Command): void {
  addOnOff(command, '--completion-end', "the end token counts as each completion's last");
  addOnOff(command, '--token-logprobs', "report each token's log-probability, too");
}

/** Turns the flags into `score` options. */
export function completionOptions({ completionEnd, tokenLogprobs }: CompletionFlags): ScoreOptions {
  return { completionEnd: isOn(completionEnd), tokenLogprobs: isOn(tokenLogprobs) };
}

/** The flags on the use of rows' hidden states. */
export interface EmbeddingFlags {
  readonly pooling: NonNullable<EmbedOptions['pooling']>;
  readonly dimensions?: number;
  readonly promptName?: string;
  readonly normalize: OnOff;
  readonly encoding: NonNullable<EmbedOptions['encoding']>;
  readonly vectorType: NonNullable<EmbedOptions['vectorType']>;
}

export function addEmbeddingFlags(command: Command): void {
  command.addOption(
    new Option(
      '--pooling <which>',
      "which hidden states an embedding is made of; cls: the first token's; weightedmean: token i weighs i + 1; auto: what the model's files say, else last, of an encoder mean",
    )
      .choices(RUN_OPTIONS.pooling.among)
      .default(RUN_OPTIONS.pooling.fallback),
  );
  command.option(
    '--prompt-name <name>',
    "which of the prompts that the model's files have goes before each text, such as query (default: the one that they name, mostly none)",
  );
  command.option(
    '--dimensions <n>',
    'only the first ones, for models that were trained for it (default: all)',
    wholeNumber(1),
  );
  addOnOff(command, '--normalize', 'to a length of 1', 'on');
  command.addOption(
    new Option('--encoding <form>', 'numbers, or their bytes in base64')
      .choices(RUN_OPTIONS.encoding.among)
      .default(RUN_OPTIONS.encoding.fallback),
  );
  command.addOption(
    new Option(
      '--vector-type <type>',
      'int8 has a scale beside it; binary and ubinary are a bit a dimension, eight a number',
    )
      .choices(RUN_OPTIONS.vectorType.among.filter((type) => type !== 'uint8'))
      .default(RUN_OPTIONS.vectorType.fallback),
  );
}

/** Turns the flags into `embed` options. */
export function embeddingOptions({
  pooling,
  dimensions,
  promptName,
  normalize,
  encoding,
  vectorType,
}: EmbeddingFlags): EmbedOptions {
  return {
    pooling,
    encoding,
    vectorType,
    normalize: isOn(normalize),
    ...(dimensions !== undefined && { dimensions }),
    ...(promptName !== undefined && { promptName }),
  };
}
