import { setImmediate } from 'node:timers/promises';
import { jsonMemory, takesAtMost } from '../../arguments/jsonMemory.js';
import { Turns } from '../../collections/Turns.js';
import { ROW_LIMITS } from '../../model/files/limits.js';
import type { AnyResult } from '../../Results.js';
import { heldBytes } from '../../rows/heldBytes.js';
import { formatBytes } from '../../units.js';

/** A result as it stands in a line of JSON: what its row carried is called `row` there. */
export type ResultLine = Omit<AnyResult, 'carry'> & { readonly row?: AnyResult['carry'] };

/** The result that a line says. */
export function resultOfLine({ row: carry, ...result }: ResultLine): AnyResult {
  return { ...result, ...(carry && { carry }) };
}

/** A line of an output, with its LF. */
export interface FormattedResult<Line = string | Buffer> {
  readonly line: Line;
  /** The line carries an error. */
  readonly failed: boolean;
}

/** Values that take more are written as JSON in a turn of the event loop of their own. */
const LARGE_BYTES = 2 ** 20;

/**
 * A result as a line that can be read again: at once for a short one, in a turn of its own for a long one. What would
 * be beyond `ROW_LIMITS.resultBytes` is a row with an error instead.
 */
export function resultLine(result: AnyResult): FormattedResult | Promise<FormattedResult> {
  // A string is twice its units here, and no value less than there.
  const most = 2 * ROW_LIMITS.resultBytes;
  const carried = result.carry === undefined ? 0 : heldBytes(result.carry, most);
  if (carried >= most) return tooLong(result);
  return carried > LARGE_BYTES ? setImmediate().then(() => written(result)) : written(result);
}

function written(result: AnyResult): FormattedResult | Promise<FormattedResult> {
  const formatted = formatResult(result);
  return takesAtMost(formatted.line.length, ROW_LIMITS.resultBytes) ? formatted : checked(result, formatted);
}

async function checked(result: AnyResult, { line, failed }: FormattedResult<string>): Promise<FormattedResult> {
  const most = ROW_LIMITS.resultBytes;
  const turns = new Turns();
  await turns.give();
  if (line.length > most) return tooLong(result);
  const bytes = Buffer.from(line);
  if (bytes.length > most) return tooLong(result);
  await turns.give();
  for (const heap of jsonMemory(bytes)) {
    if (heap > most) return tooLong(result);
    if (turns.due) await turns.give();
  }
  return { line: bytes, failed };
}

function tooLong({ id, index, sample, usage, text }: AnyResult): FormattedResult {
  const failed: AnyResult = {
    id,
    index,
    ...(sample !== undefined && { sample }),
    ...(text !== undefined && { text: '', tokens: [], finishReason: 'error' }),
    usage,
    error: {
      code: 'limit',
      message: `found a result of more than ${formatBytes(ROW_LIMITS.resultBytes)}, expected at most that, as no more is read again: fewer logprobs, new tokens or chunks, or shorter carried fields`,
    },
  };
  return formatResult(failed);
}

/** A result as its line of the output, whatever its length; keys stand in CONTRACT's order. */
export function formatResult(result: AnyResult): FormattedResult<string> {
  const { id, index, sample, usage, error, carry: row } = result;
  const { promptTokens, completionTokens } = usage;
  const who = {
    id,
    index,
    ...(sample === undefined ? {} : { sample }),
    ...(result.chunk === undefined ? {} : { chunk: result.chunk, start: result.start, end: result.end }),
  };
  const known = {
    ...who,
    ...answerOf(result),
    usage: { promptTokens, completionTokens },
    ...(result.truncated === undefined ? {} : { truncated: result.truncated }),
    ...(result.attempts === undefined ? {} : { attempts: result.attempts }),
    ...(result.parts === undefined ? {} : { parts: result.parts }),
    ...(result.model === undefined ? {} : { model: result.model }),
    ...(result.confidence === undefined ? {} : { confidence: result.confidence }),
    ...(result.leastConfidence === undefined ? {} : { leastConfidence: result.leastConfidence }),
    ...(result.fieldConfidence === undefined ? {} : { fieldConfidence: result.fieldConfidence }),
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

/** Gives what was asked for, by whichever task. */
function answerOf({
  answers,
  text,
  value,
  reasoning,
  toolCalls,
  tokens,
  finishReason,
  label,
  probability,
  probabilities,
  scores,
  embedding,
  vectorType,
  scale,
  chunks,
}: AnyResult): object {
  if (chunks !== undefined) return { chunks, ...(finishReason !== undefined && { finishReason }) };
  if (answers !== undefined) return { answers, finishReason };
  if (text !== undefined)
    return {
      text,
      ...(value === undefined ? {} : { value }),
      ...(reasoning === undefined ? {} : { reasoning }),
      ...(toolCalls === undefined ? {} : { toolCalls }),
      tokens,
      finishReason,
    };
  if (label !== undefined) return { label, probability, probabilities };
  return { ...(scores && { scores }), ...(embedding !== undefined && { embedding, vectorType, scale }) };
}
