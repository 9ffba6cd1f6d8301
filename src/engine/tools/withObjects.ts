import { isObject } from '../../arguments/isObject.js';
import { readWithSpelling } from '../../arguments/jsonNumbers.js';
import { RowError } from '../../errors/RowError.js';
import type { ChatMessage, Tokenizer } from '../../model/Tokenizer.js';

/** How a template looks whether arguments are a text: such a one does with either what it should. */
const LOOKS = /\barg(ument)?s\s+is\s+(not\s+)?string/;

/**
 * Messages whose calls have arguments as objects. OpenAI's are texts of JSON, which templates that do not look for them
 * would write as texts in JSON, and no model was trained on that.
 */
export function withObjects(messages: readonly ChatMessage[], tokenizer: Tokenizer): readonly ChatMessage[] {
  if (!messages.some(({ tool_calls: calls }) => calls !== undefined) || !takesObjects(tokenizer)) return messages;
  return messages.map((message) =>
    message.tool_calls === undefined ? message : { ...message, tool_calls: message.tool_calls.map(withObject) },
  );
}

/** By tokenizer, found out once. */
const found = new WeakMap<Tokenizer, boolean>();
const PROBE: readonly ChatMessage[] = [
  { role: 'user', content: 'a' },
  {
    role: 'assistant',
    content: null,
    tool_calls: [{ id: 'abcdefghi', type: 'function', function: { name: 'f', arguments: { a: 'b' } } }],
  },
];

/** Tells whether the template wants objects, and nothing else: some want texts, which they put between others. */
function takesObjects(tokenizer: Tokenizer): boolean {
  let takes = found.get(tokenizer);
  if (takes === undefined) {
    const { toolTemplate } = tokenizer;
    takes = toolTemplate !== undefined && !LOOKS.test(toolTemplate) && renders(tokenizer);
    found.set(tokenizer, takes);
  }
  return takes;
}

function renders(tokenizer: Tokenizer): boolean {
  try {
    const tools = [{ type: 'function', function: { name: 'f', parameters: {} } }];
    const work = tokenizer.encodeChatInParts(PROBE, { tools });
    // It stops once it is rendered, and waits for a template that takes longer than any real one.
    const { value: waiting } = work.next();
    work.return([]);
    return waiting === undefined;
  } catch (error) {
    if (error instanceof RowError) return false;
    throw error;
  }
}

function withObject(call: unknown): unknown {
  if (!isObject(call)) return call;
  const { function: called, arguments: written } = call;
  if (isObject(called)) return { ...call, function: withObject(called) };
  return typeof written === 'string' ? { ...call, arguments: objectOf(written) } : call;
}

/** Reads an object of JSON; any other text is left as it is: the template has to say what it makes of it. */
function objectOf(written: string): unknown {
  if (written.trim() === '') return {};
  try {
    const value = readWithSpelling(written);
    return isObject(value) ? value : written;
  } catch {
    return written;
  }
}
