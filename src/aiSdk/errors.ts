import { InvalidArgumentError, InvalidPromptError, UnsupportedFunctionalityError } from '@ai-sdk/provider';
import { InterruptedError } from '../errors/InterruptedError.js';
import { ResponseFormatError, RowError, type RowErrorCode } from '../errors/RowError.js';
import { UsageError } from '../errors/UsageError.js';
import type { RowFailure } from '../Row.js';

/**
 * The name that the AI SDK calls us by: models' `provider`, and the key of ours in `providerOptions` and
 * `providerMetadata`.
 */
export const PROVIDER = 'spillway';

/** Errors of a row that are its prompt's. */
const OF_PROMPT: ReadonlySet<RowErrorCode> = new Set([
  'invalid-json',
  'invalid-row',
  'no-prompt',
  'empty-prompt',
  'token-out-of-range',
  'too-long',
  'chat-template',
  'limit',
]);

/** An error for what a model cannot do; its cause says why. */
export class UnsupportedError extends UnsupportedFunctionalityError {
  constructor(
    functionality: string,
    override readonly cause: Error,
  ) {
    super({ functionality, message: cause.message });
  }
}

/** Makes the error for what a prompt has beside text. */
export function unsupportedContent(where: string, what: string): UnsupportedError {
  const message = `${where}: found ${what}, expected text alone (unsupported-content): leave such parts out, or say in words what they show`;
  return new UnsupportedError(`unsupported-content: ${what}`, new RowError('unsupported-content', message));
}

export function wrongArgument(argument: string, message: string, cause?: unknown): InvalidArgumentError {
  return new InvalidArgumentError({ argument, message, ...(cause !== undefined && { cause }) });
}

/** A row's error as the AI SDK has such, with the row's own as its cause. */
export function rowErrorOf({ code, message }: RowFailure, prompt: unknown): Error {
  const cause = new RowError(code, message);
  if (OF_PROMPT.has(code)) return new InvalidPromptError({ prompt, message, cause });
  if (code === 'invalid-parameter') return wrongArgument(argumentOf(message), message, cause);
  if (code === 'unsupported-content' || code === 'unsupported-schema') return new UnsupportedError(code, cause);
  return cause;
}

/**
 * Turns what a call has thrown into such an error as the AI SDK has: what somebody has aborted says why, as `fetch`
 * does, so that nothing tries it again.
 */
export function callErrorOf(error: unknown, prompt: unknown, signal?: AbortSignal): unknown {
  if (signal?.aborted === true && (error instanceof InterruptedError || error === signal.reason)) return signal.reason;
  if (error instanceof RowError) return rowErrorOf({ code: error.rowCode, message: error.message }, prompt);
  if (error instanceof ResponseFormatError) return new UnsupportedError('responseFormat', error);
  if (error instanceof UsageError) return wrongArgument(argumentOf(error.message), error.message, error);
  return error;
}

/** Settings that the AI SDK calls otherwise. */
const NAMES: Readonly<Record<string, string>> = {
  maxNewTokens: 'maxOutputTokens',
  stop: 'stopSequences',
  'body.reasoning_effort': 'reasoning',
};

/** Messages name what is wrong first. */
function argumentOf(message: string): string {
  const [name = 'options'] = /^[^\s:]+(?=:)/.exec(message) ?? [];
  return Object.hasOwn(NAMES, name) ? (NAMES[name] ?? name) : name;
}
