import type { AnyResult } from '../../Results.js';

/** A result as it stands in a line of JSON: what its row carried is called `row` there. */
export type ResultLine = Omit<AnyResult, 'carry'> & { readonly row?: AnyResult['carry'] };

/** The result that a line says. */
export function resultOfLine({ row: carry, ...result }: ResultLine): AnyResult {
  return { ...result, ...(carry && { carry }) };
}

/**
 * A result as its line of the output, with the LF; keys stand in CONTRACT's order. `failed`: the line carries an error.
 */
export function formatResult(result: AnyResult): { readonly line: string; readonly failed: boolean } {
  const { id, index, sample, usage, error, carry: row } = result;
  const { promptTokens, completionTokens } = usage;
  const who = { id, index, ...(sample === undefined ? {} : { sample }) };
  const known = {
    ...who,
    ...answerOf(result),
    usage: { promptTokens, completionTokens },
    ...(result.logprobs === undefined ? {} : { logprobs: result.logprobs }),
    ...(error === undefined ? {} : { error: { code: error.code, message: error.message } }),
  };
  try {
    return { line: `${JSON.stringify(row === undefined ? known : { ...known, row })}\n`, failed: error !== undefined };
  } catch (problem) {
    // JSON.parse reads nesting that JSON.stringify has no stack for, and a library user may carry a cycle or a bigint.
    const reason = (problem instanceof Error ? problem.message : String(problem)).split('\n', 1)[0] ?? '';
    if (result.value !== undefined) {
      // So may a schema that makes values of its own. The text stays.
      const { value: _, ...others } = result;
      return formatResult({
        ...others,
        finishReason: 'error',
        error: {
          code: 'schema',
          message: `value: what the schema makes of the answer cannot be written as JSON: ${reason}`,
        },
      });
    }
    const failure = { code: 'invalid-row', message: `row: the carried fields cannot be written as JSON: ${reason}` };
    const none = result.text === undefined ? {} : { text: '', tokens: [], finishReason: 'error' };
    return { line: `${JSON.stringify({ ...who, ...none, usage: known.usage, error: failure })}\n`, failed: true };
  }
}

/** What was asked for, by whichever task. */
function answerOf({
  text,
  value,
  reasoning,
  tokens,
  finishReason,
  label,
  probability,
  probabilities,
  scores,
  embedding,
}: AnyResult): object {
  if (text !== undefined)
    return {
      text,
      ...(value === undefined ? {} : { value }),
      ...(reasoning === undefined ? {} : { reasoning }),
      tokens,
      finishReason,
    };
  if (label !== undefined) return { label, probability, probabilities };
  return { ...(scores && { scores }), ...(embedding !== undefined && { embedding }) };
}
