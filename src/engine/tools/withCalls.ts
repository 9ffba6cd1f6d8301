import { createHash } from 'node:crypto';
import type { Reasoning, RowResult } from '../../Row.js';
import { Steps } from '../../regex/Steps.js';
import { SCHEMA_LIMITS } from '../../schema/limits.js';
import type { ToolCall } from '../../rows/toolCalls.js';
import type { ParsedAnswer, ToolForm, Tools } from './ToolForm.js';

/** How answers that may call tools are read. */
export interface CalledTools {
  readonly form: ToolForm;
  readonly tools: Tools;
  readonly required: boolean;
  readonly reasoning: Reasoning;
  /** Control tokens that are text in them. */
  readonly markers: ReadonlySet<string>;
  /** Of these, such as mark reasoning: they show nowhere. */
  readonly hidden: readonly string[];
  read(text: string): ParsedAnswer;
}

/**
 * A finished row with the calls that its answer has. One with calls that are no whole ones, or not valid, is an error
 * row `schema` that keeps the text.
 */
export function withCalls(result: RowResult, called: CalledTools): RowResult {
  const { calls, content, thought, reasoning, problem } = called.read(result.text);
  const wrong = problem ?? invalid(called, calls);
  if (wrong !== undefined)
    return {
      ...result,
      finishReason: 'error',
      error: {
        code: 'schema',
        message:
          result.finishReason === 'length' && (problem !== undefined || calls.length === 0)
            ? `the answer was cut off by its limit of ${result.tokens.length} tokens before its calls of tools came to their end: ${wrong}`
            : `the answer does not call tools as it should: ${wrong}`,
      },
    };
  const shown = called.hidden.reduce((text, mark) => text.replaceAll(mark, ''), thought ?? '');
  const answer = {
    ...result,
    text: called.reasoning === 'keep' ? shown + content : content,
    ...(called.reasoning === 'separate' && reasoning !== undefined && { reasoning }),
  };
  if (calls.length === 0) return answer;
  return {
    ...answer,
    toolCalls: calls.map((call, nth) => toolCall(result, called.form, call, nth)),
    finishReason: result.finishReason === 'stop' ? 'tool_calls' : result.finishReason,
  };
}

function invalid({ tools, required }: CalledTools, calls: ParsedAnswer['calls']): string | undefined {
  if (calls.length === 0) return required ? 'found no call, expected one' : undefined;
  const steps = new Steps(SCHEMA_LIMITS.valueSteps);
  for (const { name, arguments: written } of calls) {
    const problem = tools.get(name)?.schema.problem(JSON.parse(written), steps);
    if (problem !== undefined) return `the arguments of ${name}: ${problem}`;
  }
  return undefined;
}

/** Ids that a model makes up are not taken over: they may be the same twice. */
function toolCall(
  { id: row, sample, usage }: RowResult,
  form: ToolForm,
  { name, arguments: written }: ParsedAnswer['calls'][number],
  nth: number,
): ToolCall {
  const digits = createHash('sha256')
    .update(JSON.stringify([row, sample ?? null, usage.promptTokens, nth, name, written]))
    .digest('hex');
  return {
    id: form.id?.(name, nth, digits) ?? `call_${digits.slice(0, 24)}`,
    type: 'function',
    function: { name, arguments: written },
  };
}
