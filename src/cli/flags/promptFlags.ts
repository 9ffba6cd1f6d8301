import { Option, type Command } from 'commander';
import {
  checkJobOptions,
  isObject,
  RUN_OPTIONS,
  readWithSpelling,
  UsageError,
  type GenerateOptions,
  type Reasoning,
  type ToolChoice,
  type Truncation,
} from '../library.js';
import { addSwitch } from './commandFlags.js';
import { jsonOf, textOf } from './textFiles.js';

export interface PromptFlags {
  readonly promptTemplate?: string;
  readonly system?: string;
  readonly chat?: 'on' | 'off';
  readonly tools?: string;
  /** Likewise. */
  readonly toolChoice?: string;
  readonly parallelToolCalls?: 'on' | 'off';
  readonly templateArgs?: string;
  readonly now?: string;
  readonly truncate: Truncation;
  /** Only where something is generated. */
  readonly reasoning?: Reasoning;
  readonly escapeSpecialTokens: boolean;
}

/** @param generates whether there are answers that reasoning could be in */
export function addPromptFlags(command: Command, generates = true): void {
  command.optionsGroup('Prompts:');
  command.option(
    '--prompt-template <file|text>',
    'the prompt of each row, with {{field}} where a value of the row goes; of {{field?}} and {{field:default}} it may lack one; {{{{ is the text {{ (default: rows have prompts)',
  );
  command.option(
    '--system <text>',
    "goes before each row's messages, unless it has a system message of its own; makes conversations of prompts (default: none)",
  );
  command.addOption(
    new Option(
      '--chat <on|off>',
      "on: a row's prompt, or what --prompt-template makes, is a user's message, for the model's chat template; off: raw text (default: on with --system, and for lines of text if the model has a template; else off)",
    ).choices(['on', 'off']),
  );
  command.option(
    '--template-args <json>',
    'variables for the model\'s chat template, e.g. {"enable_thinking":false}; a row\'s own `templateArgs` go first (default: none)',
  );
  command.option(
    '--now <date>',
    'the time that the chat template is told, such as 2026-11-29 or 2026-11-29T12:00:00Z; local without a zone (default: when the job begins; with --shard none: a template that asks is refused)',
  );
  command.option(
    '--tools <file|json>',
    "tools that answers may call, as OpenAI describes them; or a row's own `tools` (default: none)",
  );
  addTruncate(
    command,
    'of a prompt longer than the context cut the beginning (head), the end (tail) or the middle of its own text; off: it is an error',
  );
  if (generates) {
    command.option(
      '--tool-choice <choice>',
      "auto: answers call --tools as the model will; required: with one call at least; NAME: of one function; none: not at all; or JSON, as OpenAI's tool_choice (default: auto where there are tools)",
    );
    command.addOption(
      new Option(
        '--parallel-tool-calls <on|off>',
        "off: an answer has one call at most (default: on, where the model's form of calls has room for several)",
      ).choices(['on', 'off']),
    );
    addReasoning(command);
  }
  addEscape(command);
}

/** Adds flags for requests to a server that say nothing themselves. */
export function addServedPromptFlags(command: Command): void {
  command.optionsGroup('Prompts:');
  command.option(
    '--system <text>',
    'goes before the messages of each request that has no system message of its own (default: none)',
  );
  addTruncate(
    command,
    'of a prompt longer than the context cut the beginning (head), the end (tail) or the middle of its own text; off: it is an error',
  );
  addReasoning(command);
  addEscape(command);
}

function addReasoning(command: Command): void {
  command.addOption(
    new Option('--reasoning <what>', "what becomes of reasoning in the text, as the model's chat template marks it")
      .choices(RUN_OPTIONS.reasoning.among)
      .default(RUN_OPTIONS.reasoning.fallback),
  );
}

/** Adds the flags for rows of pairs: they have no prompts. */
export function addPairFlags(command: Command): void {
  command.optionsGroup('Texts:');
  addTruncate(
    command,
    "of a document that is too long beside its query, for the model's context, cut the beginning (head), the end (tail) or the middle; off: it is an error",
  );
  addEscape(command);
}

function addTruncate(command: Command, help: string): void {
  command.addOption(
    new Option('--truncate <what>', help).choices(RUN_OPTIONS.truncate.among).default(RUN_OPTIONS.truncate.fallback),
  );
}

function addEscape(command: Command): void {
  addSwitch(command, '--escape-special-tokens', 'text such as <|im_start|> inside a row is data, not a control token');
}

/** Files that the flags name: what is no template and no JSON is a path. */
export function promptFiles({ promptTemplate, tools }: PromptFlags): {
  readonly 'prompt-template': string | undefined;
  readonly tools: string | undefined;
} {
  return {
    'prompt-template': promptTemplate?.includes('{{') === true ? undefined : promptTemplate,
    tools: tools !== undefined && /^\s*\[/.test(tools) ? undefined : tools,
  };
}

/**
 * Turns the flags into `generate` options, with the files that they name read.
 * @throws UsageError for what is no template, no JSON or no description; JobFileError for a file that cannot be read
 */
export async function promptOptions(flags: PromptFlags, signal: AbortSignal): Promise<GenerateOptions> {
  const { system, chat, truncate, reasoning, escapeSpecialTokens } = flags;
  const files = promptFiles(flags);
  const promptTemplate = await textOf(
    ['--prompt-template', 'a file, or a text with {{field}}'],
    flags.promptTemplate,
    files['prompt-template'],
    signal,
  );
  const tools = spelledJson(
    '--tools',
    await textOf(['--tools', 'a file, or a JSON array'], flags.tools, files.tools, signal),
  );
  const templateArgs = spelledJson('--template-args', flags.templateArgs);
  if (tools !== undefined && !Array.isArray(tools))
    throw new UsageError('--tools: expected a JSON array of objects that describe tools');
  if (templateArgs !== undefined && !isObject(templateArgs))
    throw new UsageError('--template-args: expected a JSON object with variables of the chat template');
  const options = {
    escapeSpecialTokens,
    ...(truncate !== 'off' && { truncate }),
    ...(reasoning && { reasoning }),
    ...(promptTemplate !== undefined && { promptTemplate }),
    ...(system !== undefined && { system }),
    ...(chat !== undefined && { chat: chat === 'on' }),
    ...(tools && { tools: tools as readonly unknown[] }),
    ...(flags.toolChoice !== undefined && { toolChoice: toolChoiceOf(flags.toolChoice) }),
    ...(flags.parallelToolCalls !== undefined && { parallelToolCalls: flags.parallelToolCalls === 'on' }),
    ...(templateArgs && { templateArgs }),
    ...(flags.now !== undefined && { now: dateOf('--now', flags.now) }),
  };
  checkJobOptions({ generate: options });
  return options;
}

/** A choice in words, the name of a function, or JSON. @throws UsageError */
function toolChoiceOf(text: string): ToolChoice {
  if (text === 'none' || text === 'auto' || text === 'required') return text;
  if (/^\s*\{/.test(text)) return jsonOf('--tool-choice', text) as ToolChoice;
  return { type: 'function', function: { name: text } };
}

/** A date as ISO 8601 writes it, in full. A day without a time is the local one. @throws UsageError */
function dateOf(flag: string, text: string): string {
  const date = new Date(/^\d{4}-\d\d-\d\d$/.test(text) ? `${text}T00:00:00` : text);
  if (!/^\d{4}-\d\d-\d\d/.test(text) || Number.isNaN(date.getTime()))
    throw new UsageError(`${flag}: found ${text}, expected a date, such as 2026-11-29 or 2026-11-29T12:00:00Z`);
  return date.toISOString();
}

/** JSON for a chat template, where numbers are as they are written. @throws UsageError */
function spelledJson(flag: string, text: string | undefined): unknown {
  const value = jsonOf(flag, text);
  return text === undefined ? value : readWithSpelling(text, value);
}
