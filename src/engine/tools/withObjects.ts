import { isObject } from '../../arguments/isObject.js';
import { readWithSpelling } from '../../arguments/jsonNumbers.js';
import type { ChatMessage, Tokenizer } from '../../model/Tokenizer.js';

/** How a template looks whether arguments are a text: such a one does with either what it should. */
const LOOKS = /\barg(ument)?s\s+is\s+(not\s+)?string/;

/**
 * Messages whose calls have arguments as objects. OpenAI's are texts of JSON, which templates that do not look for them
 * would write as texts in JSON, and no model was trained on that.
 */
export function withObjects(
  messages: readonly ChatMessage[],
  { toolTemplate = '' }: Tokenizer,
): readonly ChatMessage[] {
  if (!messages.some(({ tool_calls: calls }) => calls !== undefined) || LOOKS.test(toolTemplate)) return messages;
  return messages.map((message) =>
    message.tool_calls === undefined ? message : { ...message, tool_calls: message.tool_calls.map(withObject) },
  );
}

function withObject(call: unknown): unknown {
  if (!isObject(call)) return call;
  const { function: called, arguments: written } = call;
  if (isObject(called)) return { ...call, function: withObject(called) };
  return typeof written === 'string' ? { ...call, arguments: objectOf(written) } : call;
}

/** What is no object of JSON is left as it is: the template has to say what it makes of it. */
function objectOf(written: string): unknown {
  if (written.trim() === '') return {};
  try {
    const value = readWithSpelling(written);
    return isObject(value) ? value : written;
  } catch {
    return written;
  }
}
