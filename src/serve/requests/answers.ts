import { choiceOf } from '../../jobs/formats/openaiAnswer.js';
import type { RowResult } from '../../Row.js';
import type { ServedEngine } from '../ServeOptions.js';
import { logprobsOf } from './logprobs.js';
import type { GenerationRequest } from './readRequest.js';

/** Fields that all parts of an answer have. */
export interface AnswerHead {
  readonly id: string;
  readonly created: number;
  readonly model: string;
}

export interface Usage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
  readonly prompt_tokens_details: { readonly cached_tokens: number };
}

/** Which of a request's answers it is, from 0. */
export function placeOf({ index, sample = 0 }: Pick<RowResult, 'index' | 'sample'>, n: number): number {
  return index * n + sample;
}

/** A prompt counts once, however many answers it has. @param saved tokens of prompts that were there already */
export function usageOf(results: readonly RowResult[], saved: number): Usage {
  const prompts = new Map(results.map(({ index, usage }) => [index, usage.promptTokens]));
  const prompt = [...prompts.values()].reduce((sum, tokens) => sum + tokens, 0);
  const completion = results.reduce((sum, { usage }) => sum + usage.completionTokens, 0);
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    prompt_tokens_details: { cached_tokens: Math.min(saved, prompt) },
  };
}

/** The whole answer to a request. */
export function wholeAnswer(
  { id, created, model }: AnswerHead,
  { text, n }: GenerationRequest,
  results: readonly RowResult[],
  usage: Usage,
  tokenizer: ServedEngine['tokenizer'],
): object {
  const inOrder = [...results].sort((a, b) => placeOf(a, n) - placeOf(b, n));
  const truncated = results.reduce((sum, result) => sum + (result.truncated ?? 0), 0);
  return {
    id,
    object: text ? 'text_completion' : 'chat.completion',
    created,
    model,
    choices: inOrder.map((result) => choiceOf(result, text, placeOf(result, n), logprobsOf(result, text, tokenizer))),
    usage,
    ...(truncated > 0 && { truncated }),
  };
}
