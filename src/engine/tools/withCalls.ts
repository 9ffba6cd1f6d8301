import { createHash } from 'node:crypto';
import type { Reasoning, RowResult } from '../../Row.js';
import { byLimit } from '../../rows/cutOff.js';
import { Steps } from '../../regex/Steps.js';
import { SCHEMA_LIMITS } from '../../schema/limits.js';
import { parsedAnswer } from './AnswerReader.js';
import type { ParsedAnswer, Reasoned, ToolForm, Tools } from './ToolForm.js';

/** The value that an answer is made into, or what is wrong with it, in words. */
export type ReadAnswer = { readonly value: unknown } | { readonly problem: string };

/** How answers that may call tools are read. */
export interface CalledTools {
  readonly form: ToolForm;
  readonly tools: Tools;
  readonly required: boolean;
  readonly reasoning: Reasoning;
  readonly reasoned: Reasoned;
  /** Control tokens that are text in them. */
  readonly markers: ReadonlySet<string>;
  /** A text that calls nothing is held to a format. `stops`: what a stop string leaves of it is known to be whole. */
  readonly held?: { readonly stops: boolean } | undefined;
}

/**
 * A finished row with the calls that its answer has. One with calls that are no whole ones, or not valid, is an error
 * row `schema` that keeps the text.
 */
export function withCalls(result: RowResult, called: CalledTools, read: (text: string) => ReadAnswer): RowResult {
  const { form, tools, reasoned } = called;
  const { calls, content, kept, reasoning, problem } = parsedAnswer(form, result.text, tools, reasoned);
  const wrong = problem ?? invalid(called, calls);
  if (wrong !== undefined)
    return {
      ...result,
      finishReason: 'error',
      error: {
        code: 'schema',
        message:
          result.finishReason === 'length' && (problem !== undefined || calls.length === 0)
            ? `the answer was cut off by ${byLimit(result.tokens.length)} before its calls of tools came to their end: ${wrong}`
            : `the answer does not call tools as it should: ${wrong}`,
      },
    };
  const answer = {
    ...result,
    text: called.reasoning === 'keep' ? kept : content,
    ...(called.reasoning === 'separate' && reasoning !== undefined && { reasoning }),
  };
  if (calls.length === 0) {
    if (!called.held) return answer;
    if (result.finishReason === 'length')
      return unsatisfied(result, `it was cut off by ${byLimit(result.tokens.length)}`);
    const value = read(content);
    return 'value' in value ? { ...answer, value: value.value } : unsatisfied(result, value.problem);
  }
  return {
    ...answer,
    toolCalls: calls.map(({ name, arguments: written }, nth) => ({
      id: callId(form, { ...result, promptTokens: result.usage.promptTokens }, name, nth),
      type: 'function',
      function: { name, arguments: written },
    })),
    finishReason: result.finishReason === 'stop' ? 'tool_calls' : result.finishReason,
  };
}

/** The row as an error, that keeps its text. */
export function unsatisfied(result: RowResult, problem: string): RowResult {
  return {
    ...result,
    finishReason: 'error',
    error: { code: 'schema', message: `the answer does not satisfy its responseFormat: ${problem}` },
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
export function callId(
  form: ToolForm,
  { id, sample, promptTokens }: Pick<RowResult, 'id' | 'sample'> & { readonly promptTokens: number },
  name: string,
  nth: number,
): string {
  const digits = createHash('sha256')
    .update(JSON.stringify([id, sample ?? null, promptTokens, nth, name]))
    .digest('hex');
  return form.id?.(name, nth, digits) ?? `call_${digits.slice(0, 24)}`;
}
