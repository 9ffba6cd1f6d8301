import { InvalidPromptError, type LanguageModelV4Message, type LanguageModelV4Prompt } from '@ai-sdk/provider';
import { found } from '../arguments/found.js';
import { isObject, membersOf } from '../arguments/isObject.js';
import { unsupportedContent } from './errors.js';

type Part = Readonly<Record<string, unknown>>;

/**
 * The messages of a prompt, as OpenAI writes them. Parts of text are put together; a tool's results are messages of
 * their own.
 * @throws InvalidPromptError; UnsupportedFunctionalityError for pictures, files and their like
 */
export function messagesOf(prompt: LanguageModelV4Prompt): readonly object[] {
  if (!Array.isArray(prompt)) return invalid(prompt, `prompt: found ${found(prompt)}, expected an array of messages`);
  return prompt.flatMap((message: unknown, at) => messageOf(message, `prompt[${at}]`));
}

function messageOf(message: unknown, where: string): readonly object[] {
  const { role, content } = membersOf(message) as Partial<Record<keyof LanguageModelV4Message, unknown>>;
  switch (role) {
    case 'system':
      return typeof content === 'string'
        ? [{ role, content }]
        : invalid(message, `${where}.content: found ${found(content)}, expected a text`);
    case 'user':
      return [{ role, content: partsOf(content, where).map(textOf).join('') }];
    case 'assistant':
      return assistantMessages(partsOf(content, where));
    case 'tool':
      return partsOf(content, where).flatMap(([part, name]) => toolMessages(part, name));
    default:
      return invalid(message, `${where}.role: found ${found(role)}, expected system, user, assistant or tool`);
  }
}

/** Results of tools that somebody else has run stand among the parts of the answer, and come after it. */
function assistantMessages(parts: readonly NamedPart[]): readonly object[] {
  const texts: string[] = [];
  const reasoning: string[] = [];
  const calls: object[] = [];
  const results: object[] = [];
  for (const [part, where] of parts) {
    if (part['type'] === 'text') texts.push(textOf([part, where]));
    else if (part['type'] === 'reasoning') reasoning.push(textIn(part, where));
    else if (part['type'] === 'tool-call') calls.push(callOf(part, where));
    else if (part['type'] === 'tool-result') results.push(...toolMessages(part, where));
    else refusePart(part, where);
  }
  const content = texts.join('');
  return [
    {
      role: 'assistant',
      content: content === '' && calls.length > 0 ? null : content,
      ...(reasoning.length > 0 && { reasoning_content: reasoning.join('') }),
      ...(calls.length > 0 && { tool_calls: calls }),
    },
    ...results,
  ];
}

function callOf({ toolCallId, toolName, input }: Part, where: string): object {
  if (typeof toolCallId !== 'string' || typeof toolName !== 'string')
    return invalid(toolName, `${where}: found ${found(toolName)}, expected a call with toolCallId and toolName`);
  return { id: toolCallId, type: 'function', function: { name: toolName, arguments: jsonOf(input ?? {}, where) } };
}

function toolMessages(part: Part, where: string): readonly object[] {
  const { type, toolCallId, toolName, output } = part;
  // What a user has said of a tool that the provider runs: none of ours.
  if (type === 'tool-approval-response') return [];
  if (type !== 'tool-result') return refusePart(part, where);
  if (typeof toolCallId !== 'string' || typeof toolName !== 'string')
    return invalid(part, `${where}: found ${found(toolCallId)}, expected a result with toolCallId and toolName`);
  const content = outputOf(membersOf(output), `${where}.output`);
  return [{ role: 'tool', tool_call_id: toolCallId, name: toolName, content }];
}

/** Gives what a tool has given, in the words of which the model is told. */
function outputOf(output: Part, where: string): string {
  const { type, value, reason } = output;
  switch (type) {
    case 'text':
    case 'error-text':
      return typeof value === 'string'
        ? value
        : invalid(output, `${where}.value: found ${found(value)}, expected a text`);
    case 'json':
    case 'error-json':
      return jsonOf(value, `${where}.value`);
    case 'execution-denied':
      return typeof reason === 'string' ? reason : 'Execution of the tool was denied.';
    case 'content':
      return partsOf(value, where, 'value').map(textOf).join('');
    default:
      return invalid(
        output,
        `${where}.type: found ${found(type)}, expected text, json, content, error-text, error-json or execution-denied`,
      );
  }
}

type NamedPart = readonly [part: Part, where: string];

function partsOf(content: unknown, where: string, name = 'content'): readonly NamedPart[] {
  if (!Array.isArray(content)) return invalid(content, `${where}.${name}: found ${found(content)}, expected an array`);
  return content.map((part: unknown, at) => {
    const own = `${where}.${name}[${at}]`;
    return isObject(part) ? [part, own] : invalid(part, `${own}: found ${found(part)}, expected a part with a type`);
  });
}

function textOf([part, where]: NamedPart): string {
  return part['type'] === 'text' ? textIn(part, where) : refusePart(part, where);
}

function textIn({ text }: Part, where: string): string {
  return typeof text === 'string' ? text : invalid(text, `${where}.text: found ${found(text)}, expected a text`);
}

/** @throws always */
function refusePart({ type, mediaType, kind }: Part, where: string): never {
  const media =
    typeof mediaType === 'string' ? ` of ${found(mediaType)}` : typeof kind === 'string' ? ` of ${found(kind)}` : '';
  if (typeof type === 'string') throw unsupportedContent(where, `a part ${found(type)}${media}`);
  return invalid(type, `${where}.type: found ${found(type)}, expected a part's type`);
}

function jsonOf(value: unknown, where: string): string {
  try {
    // Undefined is what tools give that give nothing.
    return JSON.stringify(value) ?? 'null';
  } catch (error) {
    throw new InvalidPromptError({ prompt: value, message: `${where}: found what is no JSON`, cause: error });
  }
}

function invalid(prompt: unknown, message: string): never {
  throw new InvalidPromptError({ prompt, message });
}
