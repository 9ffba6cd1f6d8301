import type {
  Experimental_BatchV4ItemResult,
  LanguageModelV4FinishReason,
  LanguageModelV4GenerateResult,
} from '@ai-sdk/provider';
import { membersOf } from '../arguments/isObject.js';
import { bytesOf } from '../files/fileBytes.js';
import { readLines } from '../jobs/formats/readLines.js';
import type { FinishReason, RowResult } from '../Row.js';
import type { ToolCall } from '../rows/toolCalls.js';
import { contentOf, finishOf, usageOf } from './answers.js';

/** The limit for lines we have written ourselves: as much as a line may be. */
const MOST_LINE_BYTES = 2 ** 29;

/** The results that the files of a batch have, line by line. @throws JobFileError; what the signal was aborted with */
export async function* batchItems(
  paths: readonly string[],
  signal: AbortSignal | undefined,
): AsyncGenerator<Experimental_BatchV4ItemResult, void, undefined> {
  for (const path of paths) {
    for await (const { bytes } of readLines(bytesOf(path), MOST_LINE_BYTES)) {
      signal?.throwIfAborted();
      if (bytes) yield itemOf(membersOf(JSON.parse(bytes.toString('utf8'))));
    }
  }
}

function itemOf({ custom_id, response, error }: Readonly<Record<string, unknown>>): Experimental_BatchV4ItemResult {
  const item = { type: 'text', id: String(custom_id) } as const;
  if (error !== null && error !== undefined) {
    const { code, message } = membersOf(error);
    const status = code === 'batch_expired' ? 'expired' : 'cancelled';
    return { ...item, status, error: { message: String(message), code: String(code) } };
  }
  const { status_code: statusCode, body } = membersOf(response);
  if (statusCode !== 200) {
    const { message, type, code } = membersOf(membersOf(body)['error']);
    return {
      ...item,
      status: 'failed',
      error: { message: String(message), type: String(type), code: String(code), statusCode: Number(statusCode) },
    };
  }
  return { ...item, status: 'succeeded', result: resultOf(membersOf(body)) };
}

/** An answer, of OpenAI's form. */
function resultOf({ id, choices, usage, model }: Readonly<Record<string, unknown>>): LanguageModelV4GenerateResult {
  const { message, finish_reason: reason } = membersOf((choices as readonly unknown[])[0]);
  const { content, reasoning_content: reasoning, tool_calls: calls } = membersOf(message);
  const { prompt_tokens: promptTokens, completion_tokens: completionTokens } = membersOf(usage);
  const result: RowResult = {
    id: String(id),
    index: 0,
    text: typeof content === 'string' ? content : '',
    ...(typeof reasoning === 'string' && { reasoning }),
    ...(Array.isArray(calls) && { toolCalls: calls as readonly ToolCall[] }),
    tokens: [],
    finishReason: reason as FinishReason,
    usage: { promptTokens: Number(promptTokens), completionTokens: Number(completionTokens) },
  };
  const finishReason: LanguageModelV4FinishReason = finishOf(result);
  return {
    content: contentOf(result),
    finishReason,
    usage: usageOf(result, 0),
    response: { id: String(id), modelId: String(model) },
    warnings: [],
  };
}
