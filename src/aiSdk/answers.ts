import type {
  LanguageModelV4Content,
  LanguageModelV4FinishReason,
  LanguageModelV4GenerateResult,
  LanguageModelV4Usage,
  SharedV4ProviderMetadata,
} from '@ai-sdk/provider';
import type { FinishReason, RowResult } from '../Row.js';
import { isCutByLimit } from '../rows/cutOff.js';
import { PROVIDER } from './errors.js';

const UNIFIED: Readonly<Record<FinishReason, LanguageModelV4FinishReason['unified']>> = {
  stop: 'stop',
  length: 'length',
  tool_calls: 'tool-calls',
  error: 'error',
};

/**
 * Tells whether there is an answer, even one that is not what its format asks for: the AI SDK shows it to whoever is
 * told that it is none.
 */
export function isAnswer({ error }: Pick<RowResult, 'error'>): boolean {
  return error === undefined || error.code === 'schema';
}

/** How an answer has ended; one that was cut off before it was what its format asks for, by its length. */
export function finishOf({ finishReason, error }: RowResult): LanguageModelV4FinishReason {
  if (error) return { unified: isCutByLimit(error) ? 'length' : 'error', raw: error.code };
  return { unified: UNIFIED[finishReason], raw: finishReason };
}

/** @param cached tokens of the prompt that were computed already */
export function usageOf({ usage, reasoning }: RowResult, cached: number): LanguageModelV4Usage {
  const { promptTokens, completionTokens } = usage;
  const read = Math.min(cached, promptTokens);
  return {
    inputTokens: { total: promptTokens, noCache: promptTokens - read, cacheRead: read, cacheWrite: undefined },
    // Of an answer that reasons its tokens are not counted apart.
    outputTokens: {
      total: completionTokens,
      text: reasoning === undefined ? completionTokens : undefined,
      reasoning: reasoning === undefined ? 0 : undefined,
    },
  };
}

/** Gives the parts of an answer, in its order. */
export function contentOf({ text, reasoning, toolCalls = [] }: RowResult): LanguageModelV4Content[] {
  return [
    ...(reasoning === undefined || reasoning === '' ? [] : [{ type: 'reasoning', text: reasoning } as const]),
    ...(text === '' ? [] : [{ type: 'text', text } as const]),
    ...toolCalls.map(
      ({ id, function: { name, arguments: input } }) =>
        ({ type: 'tool-call', toolCallId: id, toolName: name, input }) as const,
    ),
  ];
}

/** Gives what is ours alone of an answer. */
export function metadataOf({ logprobs, truncated }: RowResult): { providerMetadata?: SharedV4ProviderMetadata } {
  if (logprobs === undefined && truncated === undefined) return {};
  const told = {
    ...(logprobs && {
      logprobs: logprobs.map(({ top, ...each }) => ({ ...each, top: top.map((other) => ({ ...other })) })),
    }),
    ...(truncated !== undefined && { truncated }),
  };
  return { providerMetadata: { [PROVIDER]: told } };
}

/** A whole answer. */
export function generateResultOf(
  result: RowResult,
  cached: number,
): Pick<LanguageModelV4GenerateResult, 'content' | 'finishReason' | 'usage' | 'providerMetadata'> {
  return {
    content: contentOf(result),
    finishReason: finishOf(result),
    usage: usageOf(result, cached),
    ...metadataOf(result),
  };
}
