import type { Work } from '../../collections/drained.js';
import { found } from '../../arguments/found.js';
import { isObject } from '../../arguments/isObject.js';
import { RowError } from '../../errors/RowError.js';
import { ROW_LIMITS } from '../../model/files/limits.js';
import { unitsOfChat } from '../../model/tokenizer/ChatTemplate.js';
import type { ChatMessage, EncodeOptions, TemplateInput, Tokenizer } from '../../model/Tokenizer.js';
import type { GenerateOptions, PromptOptions, Row, ToolOptions } from '../../Row.js';
import { questionOf } from '../../rows/askedRow.js';
import { readMessages } from '../../rows/messages.js';
import { promptField } from '../../rows/rowFields.js';
import { filledTemplate } from '../../rows/promptTemplate.js';
import { formatInWords, responseFormatOf } from '../../rows/responseFormat.js';
import { readable } from '../../rows/readableRow.js';
import { templateInput } from '../../rows/templateInput.js';
import { offersTools } from '../../rows/tools.js';
import { toldOfTools } from '../tools/toldOfTools.js';
import { withObjects } from '../tools/withObjects.js';

/** The limits against which rows are checked. */
export interface RowLimits {
  readonly contextTokens: number;
  readonly vocabularySize: number;
}

/** The options that decide how a prompt is made. */
export type MadeOptions = Pick<
  GenerateOptions,
  keyof PromptOptions | keyof ToolOptions | 'responseFormat' | 'schemaInPrompt'
>;

/** The tokens of a prompt: of those that are more than the context holds it is known how many there are. */
export interface PromptTokens {
  /** All, or the first ones: as many as the context holds, and where the tokenizer puts some after it, these. */
  readonly tokens: readonly number[];
  readonly count: number;
}

/** The tokens of a text; stops on the way to those of a long one. */
export function* encoded(text: string, tokenizer: Tokenizer, options: EncodeOptions): Work<readonly number[]> {
  const made = tokenizer.encodeInParts(text, options);
  return 'next' in made ? yield* made : made;
}

/** The same, of which the first ones are kept, `most` of them at least, and the others are counted. */
export function* countedTokens(
  text: string,
  tokenizer: Tokenizer,
  most: number,
  options: EncodeOptions,
): Work<PromptTokens> {
  const surplus = { after: most, count: 0 };
  const tokens = yield* encoded(text, tokenizer, { ...options, surplus });
  return { tokens, count: tokens.length + surplus.count };
}

/**
 * The tokens of a row's prompt, whichever way it is given; stops on the way to those of a long text. @throws RowError
 */
export function* promptTokens(
  row: Row,
  options: MadeOptions,
  tokenizer: Tokenizer,
  limits: RowLimits,
): Work<PromptTokens> {
  const prompt = promptOf(row, options, tokenizer, limits);
  if ('tokens' in prompt) {
    checkLength(prompt.tokens, limits);
    const tokens = checkedTokens(prompt.tokens, limits.vocabularySize);
    return { tokens, count: tokens.length };
  }
  yield;
  return yield* tokensOfText(prompt, () => toldInput(row, options), options, tokenizer, limits);
}

/**
 * Collects the input that a row's chat template is given beside messages: tools where the model is told of them.
 * @throws RowError
 */
export function toldInput(row: Row, options: MadeOptions): TemplateInput {
  const { tools, ...others } = templateInput(row, options);
  return { ...others, ...(tools && offersTools(row, options) && { tools }) };
}

/** The tokens of a prompt that is text. @param inputOf what a chat template is given beside messages */
export function* tokensOfText(
  prompt: TextPrompt,
  inputOf: () => TemplateInput,
  { escapeSpecialTokens }: Pick<PromptOptions, 'escapeSpecialTokens'>,
  tokenizer: Tokenizer,
  limits: RowLimits,
): Work<PromptTokens> {
  const parseSpecial = escapeSpecialTokens !== true;
  const surplus = { after: limits.contextTokens, count: 0 };
  let tokens: readonly number[];
  if ('messages' in prompt) {
    const input = inputOf();
    yield;
    checkUnits(unitsOfChat(prompt.messages, input), limits);
    tokens = yield* tokenizer.encodeChatInParts(prompt.messages, { parseSpecial, surplus, ...input });
  } else {
    checkUnits(prompt.text.length, limits);
    tokens = yield* encoded(prompt.text, tokenizer, { parseSpecial, surplus });
  }
  if (tokens.length === 0)
    throw new RowError('empty-prompt', 'the prompt has no tokens, and the model has no begin token to start from');
  for (let at = 0; at < tokens.length; at += SLICE_IDS) {
    if (at > 0) yield;
    const end = Math.min(tokens.length, at + SLICE_IDS);
    for (let each = at; each < end; each++) {
      const id = tokens[each] ?? -1;
      if (!(id >= 0 && id < limits.vocabularySize)) checkedIds('tokens', [id], limits.vocabularySize);
    }
  }
  return { tokens, count: tokens.length + surplus.count };
}

/** Ids that are looked at between two moments at which others may have their turn. */
const SLICE_IDS = 2 ** 17;

export type TextPrompt = { readonly text: string } | { readonly messages: readonly ChatMessage[] };
type Prompt = TextPrompt | { readonly tokens: unknown };

/** Collects the parts that a row's prompt is made of, in a copy. @throws RowError */
export function promptOf(row: Row, options: MadeOptions, tokenizer: Tokenizer, limits: RowLimits): Prompt {
  const { promptTemplate, system } = options;
  const field = promptTemplate === undefined ? promptField(row) : 'prompt';
  const question = questionOf(row);
  if (field === 'tokens') {
    if (question === undefined) return { tokens: row.tokens };
    throw new RowError(
      'invalid-row',
      'tokens: found them in a row that is asked questions, whose texts go after its own, expected prompt or messages',
    );
  }
  const told = options.schemaInPrompt === true ? toldFormat(row, options) : undefined;
  const conversation = (own: readonly ChatMessage[]): Prompt => {
    // A row that has instructions of its own keeps them.
    const begins = system === undefined || own.some(isInstruction);
    const all = begins ? own : [{ role: 'system', content: system } as const, ...own];
    // What rows of one text are asked comes last, their formats too: what is before it is computed once.
    const messages = question === undefined ? withFormat(all, told) : asking(all, withFormatAfter(question, told));
    return { messages: withFormat(messages, toldOfTools(row, options, tokenizer)) };
  };
  if (field === 'messages')
    return conversation(
      withObjects(
        readable(() => readMessages(row.messages)),
        tokenizer,
      ),
    );
  const text: unknown =
    promptTemplate === undefined ? row.prompt : filledTemplate(promptTemplate, fieldsOf(row), mostUnits(limits));
  if (typeof text !== 'string') throw new RowError('invalid-row', `prompt: found ${found(text)}, expected a string`);
  if (isChat(row, options, tokenizer)) return conversation([{ role: 'user', content: text }]);
  if (question !== undefined) return { text: behind(text, withFormatAfter(question, told)) };
  return { text: told === undefined ? text : `${told}\n\n${text}` };
}

/** A text, and what goes after it. */
function behind(text: string, more: string): string {
  return text === '' ? more : `${text}\n\n${more}`;
}

function withFormatAfter(question: string, told: string | undefined): string {
  return told === undefined ? question : behind(question, told);
}

/** A conversation that ends with a question: in its last message, if that is the user's. */
function asking(messages: readonly ChatMessage[], question: string): readonly ChatMessage[] {
  const last = messages.at(-1);
  if (last?.role !== 'user' || last.content === null) return [...messages, { role: 'user', content: question }];
  const content =
    typeof last.content === 'string'
      ? behind(last.content, question)
      : [...last.content, { type: 'text', text: `\n\n${question}` }];
  return messages.with(-1, { ...last, content });
}

export function isInstruction({ role }: ChatMessage): boolean {
  return role === 'system' || role === 'developer';
}

/**
 * The format goes after the first instructions: what is before them all is the same for all rows, and computed once.
 */
function withFormat(messages: readonly ChatMessage[], told: string | undefined): readonly ChatMessage[] {
  if (told === undefined) return messages;
  const at = messages.findIndex(isInstruction);
  const instructions = messages[at];
  if (instructions === undefined) return [{ role: 'system', content: told }, ...messages];
  return messages.with(at, {
    ...instructions,
    content:
      typeof instructions.content === 'string' || instructions.content === null
        ? [instructions.content, told].filter((text) => text !== null && text !== '').join('\n\n')
        : [...instructions.content, { type: 'text', text: told }],
  });
}

function toldFormat(row: Row, options: Pick<GenerateOptions, 'responseFormat' | 'schemaInPrompt'>): string | undefined {
  const given: unknown = row.responseFormat ?? options.responseFormat;
  return given === undefined || given === null ? undefined : readable(() => formatInWords(responseFormatOf(given)));
}

/** Tells whether a row's prompt goes through the chat template. @throws RowError */
export function isConversation(row: Row, options: PromptOptions, tokenizer: Tokenizer): boolean {
  const field = options.promptTemplate === undefined ? promptField(row) : 'prompt';
  return field === 'messages' || (field === 'prompt' && isChat(row, options, tokenizer));
}

/**
 * Tells whether a row's text is a user's message: as the row says, else the run; with a system message it is. @throws
 * RowError
 */
function isChat(
  row: Row,
  { system, chat = system === undefined ? undefined : true }: PromptOptions,
  { hasChatTemplate }: Tokenizer,
): boolean {
  const own: unknown = 'chat' in row ? row.chat : undefined;
  if (own === undefined || own === null || own === 'auto') return chat ?? (own === 'auto' && hasChatTemplate);
  if (typeof own !== 'boolean')
    throw new RowError('invalid-row', `chat: found ${found(own)}, expected true, false or auto`);
  return own;
}

/** Collects the fields that a template may ask for: the row's `fields`; where it has none, its id and prompt. */
export function fieldsOf({ fields, id, prompt }: Row): Readonly<Record<string, unknown>> {
  if (fields === undefined || fields === null) return { id, prompt };
  if (isObject(fields)) return fields;
  throw new RowError('invalid-row', `fields: found ${found(fields)}, expected an object`);
}

/**
 * Text far beyond the model's context is refused before it takes seconds to find out how far. @param what the text is
 * @throws RowError
 */
export function checkUnits(units: number, limits: RowLimits, what = 'the prompt has'): void {
  const most = mostUnits(limits);
  if (units <= most) return;
  throw new RowError(
    'too-long',
    `${what} ${units} UTF-16 units, the model's context holds ${limits.contextTokens} tokens: expected at most ${most} units`,
  );
}

/** Units of a text that may still have so many tokens. */
function mostUnits({ contextTokens }: RowLimits): number {
  return ROW_LIMITS.textUnits + ROW_LIMITS.textUnitsPerContextToken * contextTokens;
}

/** Far more ids than the context holds are not looked at one by one. @throws RowError */
function checkLength(tokens: unknown, { contextTokens }: RowLimits): void {
  const length = readable(() => (Array.isArray(tokens) ? tokens.length : 0));
  if (length > Math.max(contextTokens, MOST_LOOKED_AT)) throw tooManyTokens(length, contextTokens);
}

/** A prompt that is not much longer than this fails first by what is wrong with its ids. */
const MOST_LOOKED_AT = 2 ** 16;

export function tooManyTokens(tokens: number, contextTokens: number): RowError {
  return new RowError('too-long', `the prompt has ${tokens} tokens, the model's context holds ${contextTokens}`);
}

/**
 * A copy that nobody can change any more: a row waits for its turn, and its giver may fill the same array again.
 * @throws RowError
 */
export function checkedTokens(tokens: unknown, vocabularySize: number): readonly number[] {
  return readable(() => {
    if (!Array.isArray(tokens))
      throw new RowError('invalid-row', `tokens: found ${found(tokens)}, expected an array of token ids`);
    if (tokens.length === 0)
      throw new RowError('empty-prompt', 'tokens: found an empty array, expected at least one token id');
    return checkedIds('tokens', tokens, vocabularySize);
  });
}

/** The same of a list that may be empty. @param name what errors call it @throws RowError */
export function checkedIds(name: string, tokens: readonly unknown[], vocabularySize: number): readonly number[] {
  return readable(() =>
    Array.from(tokens, (token) => {
      if (typeof token !== 'number' || !Number.isInteger(token) || token < 0 || token >= vocabularySize) {
        throw new RowError(
          'token-out-of-range',
          `${name}: found ${found(token)}, expected ids from 0 to ${vocabularySize - 1}`,
        );
      }
      return token;
    }),
  );
}
