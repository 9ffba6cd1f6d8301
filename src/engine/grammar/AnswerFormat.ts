import type { NativeGrammar } from '../../bindings/Grammars.js';
import type { RowResult } from '../../Row.js';
import { unsatisfied, withCalls, type CalledTools, type ReadAnswer } from '../tools/withCalls.js';
import type { ChoiceTree } from './ChoiceTree.js';
import type { EnforcedSchema } from '../../schema/EnforcedSchema.js';

/** A format, compiled: what an answer's tokens follow, and what the whole answer means. */
export interface AnswerFormat {
  readonly grammar: NativeGrammar;
  /** Every answer is looked at as well, whatever its grammar has let through. */
  read(text: string): ReadAnswer;
  /** Tells whether a text is a whole answer. None where only the grammar knows, token by token. */
  readonly isWhole?: (text: string) => boolean;
  /** The tools that answers may call, if any: what calls nothing is read by `read`, where it is held to a format. */
  readonly calls?: CalledTools;
  /** The tree in which a greedy row finds the likeliest of the choices; made when it is first asked for. */
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
  if (format.calls) return withCalls(result, format.calls, (text) => format.read(text));
  const read = format.read(result.text);
  return 'value' in read ? { ...result, value: read.value } : unsatisfied(result, read.problem);
}
