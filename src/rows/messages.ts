import { isObject } from '../arguments/isObject.js';
import type { RowPrompt } from '../Row.js';
import { foundInRow } from '../arguments/found.js';
import { isAbsent, wrongType } from './rowFields.js';
import { RowError } from '../errors/RowError.js';
import { plainJson } from './templateInput.js';

type ChatMessage = Extract<RowPrompt, { readonly messages: readonly unknown[] }>['messages'][number];

/** Texts that messages may have beside role, content and calls of tools. */
const TEXTS = ['name', 'tool_call_id', 'reasoning_content', 'reasoning', 'thinking'] as const;

/**
 * A row's messages, wherever the row comes from: copies of what of them is ours, that nobody can change any more. Null
 * is as good as absent; content may be absent where tools are called.
 * @throws RowError `invalid-row`, naming the message's field; `unsupported-content` for a picture and its like
 */
export function readMessages(messages: unknown): ChatMessage[] {
  if (!Array.isArray(messages) || messages.length === 0)
    throw wrongType('messages', messages, 'an array of at least one {role, content}');
  return Array.from(messages as unknown[], readMessage);
}

function readMessage(message: unknown, index: number): ChatMessage {
  const name = `messages[${index}]`;
  if (!isObject(message)) throw wrongType(name, message, 'an object {role, content}');
  const { role, content, tool_calls: calls } = message;
  if (typeof role !== 'string') throw wrongType(`${name}.role`, role, 'a string');
  const called = isAbsent(calls) ? undefined : plainJson(`${name}.tool_calls`, calls);
  if (called !== undefined && !Array.isArray(called)) throw wrongType(`${name}.tool_calls`, called, 'an array');
  const parts = Array.isArray(content) ? readParts(`${name}.content`, content) : undefined;
  if (typeof content !== 'string' && parts === undefined && !(called && isAbsent(content)))
    throw wrongType(`${name}.content`, content, 'a string, or an array of {type: "text", text}');
  const texts = TEXTS.flatMap((field) => {
    const text = message[field];
    if (isAbsent(text)) return [];
    if (typeof text !== 'string') throw wrongType(`${name}.${field}`, text, 'a string');
    return [[field, text] as const];
  });
  return {
    role,
    content: parts ?? (typeof content === 'string' ? content : null),
    ...(called && { tool_calls: called }),
    ...Object.fromEntries(texts),
  };
}

/** Kinds of parts beside text, by their type or the member that holds them, as their various forms call them. */
const MEDIA = [
  ['a picture', /image|picture|photo/i],
  ['a sound', /audio|sound|speech/i],
  ['a video', /video/i],
  ['a file', /file|document/i],
] as const;

/** The part's kind where it is of no text: said by its type, or, without one, by its members. */
function mediumOf(part: unknown): string | undefined {
  if (!isObject(part) || part.type === 'text') return undefined;
  const names = typeof part.type === 'string' ? [part.type] : Object.keys(part).slice(0, 8);
  return MEDIA.find(([, pattern]) => names.some((name) => pattern.test(name.slice(0, 100))))?.[0];
}

/** Parts of a content as OpenAI writes them: those of text alone. */
function readParts(name: string, content: readonly unknown[]): readonly unknown[] {
  return Array.from(content, (part, index) => {
    const type = isObject(part) ? part.type : undefined;
    const text = isObject(part) ? part.text : undefined;
    const medium = mediumOf(part);
    if (medium !== undefined)
      throw new RowError(
        'unsupported-content',
        `${name}[${index}]: found ${medium} (${foundInRow(type)}), expected text alone: of a model that also sees or hears the language model is computed; leave such parts out, or say in words what they show`,
      );
    if (type !== 'text' || typeof text !== 'string')
      throw wrongType(
        `${name}[${index}]`,
        type === undefined || type === 'text' ? part : type,
        'a part {type: "text", text}',
      );
    return { type, text };
  });
}
