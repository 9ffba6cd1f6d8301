import type { NativeGrammar } from '../../bindings/Grammars.js';
import type { RowResult } from '../../Row.js';
import { withCalls, type CalledTools } from '../tools/withCalls.js';
import type { ChoiceTree } from './ChoiceTree.js';
import type { EnforcedSchema } from '../../schema/EnforcedSchema.js';

/** What an answer is made into: a value, or what is wrong with it, in words. */
export type ReadAnswer = { readonly value: unknown } | { readonly problem: string };

/** A format, compiled: what an answer's tokens follow, and what the whole answer means. */
export interface AnswerFormat {
  readonly grammar: NativeGrammar;
  /** Every answer is looked at as well, whatever its grammar has let through. */
  read(text: string): ReadAnswer;
  /** Whether a text is a whole answer. None where only the grammar knows, token by token. */
  readonly isWhole?: (text: string) => boolean;
  /** Of answers that may call tools: these are read, and `read` and `isWhole` are not asked. */
  readonly calls?: CalledTools;
  /** Of choices, what a greedy row finds the likeliest in; made when it is first asked for. */
  readonly choices?: () => Promise<ChoiceTree | undefined>;
}

/** The value of an answer that satisfies a schema. */
export function jsonOf(text: string, schema: EnforcedSchema): ReadAnswer {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return { problem: `it is no JSON: ${error instanceof Error ? error.message : String(error)}` };
  }
  const problem = schema.problem(value);
  return problem === undefined ? { value } : { problem };
}

/** A finished row with its value; one whose answer has none becomes an error row `schema` that keeps the text. */
export function withValue(result: RowResult, format: AnswerFormat | undefined): RowResult {
  if (format === undefined || result.error !== undefined) return result;
  if (format.calls) return withCalls(result, format.calls);
  const read = format.read(result.text);
  if ('value' in read) return { ...result, value: read.value };
  return {
    ...result,
    finishReason: 'error',
    error: { code: 'schema', message: `the answer does not satisfy its responseFormat: ${read.problem}` },
  };
}
