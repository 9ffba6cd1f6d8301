import { createHash } from 'node:crypto';
import { membersOf } from '../../arguments/isObject.js';
import type { AnyResult } from '../../Results.js';
import type { RowFailure } from '../../Row.js';
import { embeddingAs } from '../../rows/embeddings.js';
import { askedProblem } from './openaiRequest.js';
import type { FinishedRow } from './RowFormat.js';

/** Errors that are none of the request's. */
const OURS: ReadonlySet<string> = new Set(['crash', 'memory', 'numeric', 'schema', 'timeout']);

/** Errors of rows that their batch ended before. */
const UNANSWERED: ReadonlySet<string> = new Set(['cancelled', 'expired']);

/**
 * A line of OpenAI's output file, or of its error file. Ids come of the request, and `created` is 0, so that the same
 * requests have the same lines.
 * @param choices the answers to one request
 */
export function answerLine({ carry, result }: FinishedRow, choices: readonly FinishedRow[]): string {
  const name = createHash('sha256')
    .update(JSON.stringify([result.index, result.id]))
    .digest('hex')
    .slice(0, 32);
  const failure = choices.find((choice) => choice.result.error)?.result.error;
  const custom_id = typeof result.id === 'string' ? result.id : (membersOf(carry)['custom_id'] ?? null);
  // Nobody has looked at the request.
  if (failure && UNANSWERED.has(failure.code))
    return `${JSON.stringify({
      id: `batch_req_${name}`,
      custom_id,
      response: null,
      error: { code: `batch_${failure.code}`, message: failure.message },
    })}\n`;
  const [status, body] =
    failure === undefined
      ? [
          200,
          bodyOf(
            membersOf(carry),
            choices.map((choice) => choice.result),
            name,
          ),
        ]
      : errorOf(failure);
  return `${JSON.stringify({
    id: `batch_req_${name}`,
    custom_id,
    response: { status_code: status, request_id: `req_${name}`, body },
    error: null,
  })}\n`;
}

function errorOf({ code, message }: RowFailure): readonly [status: number, body: object] {
  const status = statusOf(code);
  const type = status === 500 ? 'server_error' : 'invalid_request_error';
  const { message: told, param } = askedProblem(message);
  return [status, { error: { message: told, type, param, code } }];
}

/** Gives HTTP's status of a row that failed. */
export function statusOf(code: RowFailure['code']): 400 | 500 {
  return OURS.has(code) ? 500 : 400;
}

function bodyOf({ url, body }: Readonly<Record<string, unknown>>, choices: readonly AnyResult[], name: string): object {
  const asked = membersOf(body)['model'];
  const model = typeof asked === 'string' ? asked : '';
  const [first] = choices;
  const prompt = first?.usage.promptTokens ?? 0;
  // OpenAI refuses what is too long, and has no place for it.
  const cut = first?.truncated === undefined ? {} : { truncated: first.truncated };
  if (first?.embedding !== undefined) {
    // As the request wants it, whatever the run was told.
    const embedding = embeddingAs(
      { ...first, embedding: first.embedding },
      membersOf(body)['encoding_format'] === 'base64' ? 'base64' : 'float',
    );
    return {
      object: 'list',
      data: [{ object: 'embedding', index: 0, embedding }],
      model,
      usage: { prompt_tokens: prompt, total_tokens: prompt },
      ...cut,
    };
  }
  const completion = choices.reduce((sum, { usage }) => sum + usage.completionTokens, 0);
  const text = url === '/v1/completions';
  return {
    id: `${text ? 'cmpl' : 'chatcmpl'}-${name}`,
    object: text ? 'text_completion' : 'chat.completion',
    created: 0,
    model,
    choices: choices.map((choice) => choiceOf(choice, text, choice.sample ?? 0)),
    usage: { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion },
    ...cut,
  };
}

/** An answer among those to a request. @param text whether it is one of `/v1/completions` */
export function choiceOf(
  { text: content, reasoning, toolCalls, finishReason, attempts }: AnyResult,
  text: boolean,
  index: number,
  logprobs: object | null = null,
): object {
  // OpenAI's answers have no place for it, nor for `attempts`; others' have it so.
  const reasoned = reasoning === undefined ? {} : { reasoning_content: reasoning };
  const answer = text ? { text: content, ...reasoned } : { message: messageOf(content, toolCalls, reasoned) };
  return {
    index,
    ...answer,
    logprobs,
    finish_reason: finishReason,
    ...(attempts === undefined ? {} : { attempts }),
  };
}

/** Without a text beside its calls a message has no content. */
function messageOf(content: string | undefined, calls: AnyResult['toolCalls'], reasoned: object): object {
  return {
    role: 'assistant',
    content: calls !== undefined && content === '' ? null : content,
    ...reasoned,
    refusal: null,
    ...(calls && { tool_calls: calls }),
  };
}
