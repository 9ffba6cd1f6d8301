import type { RowResult } from '../Row.js';

/** A result as its line of the output, with the LF; keys stand in CONTRACT's order. `failed`: the line carries an error. */
export function formatResult(result: RowResult): { readonly line: string; readonly failed: boolean } {
  const { id, index, sample, text, value, reasoning, tokens, finishReason, usage, logprobs, error, row } = result;
  const known = {
    id,
    index,
    ...(sample === undefined ? {} : { sample }),
    text,
    ...(value === undefined ? {} : { value }),
    ...(reasoning === undefined ? {} : { reasoning }),
    tokens,
    finishReason,
    usage: { promptTokens: usage.promptTokens, completionTokens: usage.completionTokens },
    ...(logprobs === undefined ? {} : { logprobs }),
    ...(error === undefined ? {} : { error: { code: error.code, message: error.message } }),
  };
  try {
    return { line: `${JSON.stringify(row === undefined ? known : { ...known, row })}\n`, failed: error !== undefined };
  } catch (problem) {
    // JSON.parse reads nesting that JSON.stringify has no stack for, and a library user may carry a cycle or a bigint.
    const reason = (problem instanceof Error ? problem.message : String(problem)).split('\n', 1)[0] ?? '';
    const failure = { code: 'invalid-row', message: `row: the carried fields cannot be written as JSON: ${reason}` };
    return { line: `${JSON.stringify({ id, index, ...(sample === undefined ? {} : { sample }), text: '', tokens: [], finishReason: 'error', usage: known.usage, error: failure })}\n`, failed: true };
  }
}
