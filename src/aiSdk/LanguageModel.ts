import { randomUUID } from 'node:crypto';
import type {
  LanguageModelV4,
  LanguageModelV4CallOptions,
  LanguageModelV4GenerateResult,
  LanguageModelV4StreamPart,
  LanguageModelV4StreamResult,
} from '@ai-sdk/provider';
import { CHAT, rowOfBody } from '../jobs/formats/openaiRequest.js';
import type { RowResult } from '../Row.js';
import type { ModelLease } from '../serve/models/Models.js';
import type { ServedEngine, ServedResults } from '../serve/ServeOptions.js';
import { AnswerParts } from './AnswerParts.js';
import { generateResultOf, isAnswer } from './answers.js';
import { type ChatRequest, chatRequest } from './chatRequest.js';
import { callErrorOf, rowErrorOf } from './errors.js';
import { ProvidedModel } from './ProvidedModel.js';

/** Tokens that an answer may have where nothing is said of it, and half of the context holds them. */
const MOST_TOKENS = 1024;

/** A model that answers prompts. */
export class LanguageModel extends ProvidedModel implements LanguageModelV4 {
  readonly supportedUrls = {};

  async doGenerate(options: LanguageModelV4CallOptions): Promise<LanguageModelV4GenerateResult> {
    const { prompt, abortSignal: signal } = options;
    const request = chatRequest(options);
    return this.engines().with(this.modelId, { signal, prompt }, async (engine) => {
      const results = answersOf(engine, request, signal);
      let result: RowResult | undefined;
      for await (const each of results) result = each;
      if (!result) throw new RangeError('found no answer');
      if (result.error && !isAnswer(result)) throw rowErrorOf(result.error, prompt);
      const { sharing } = await results.stats;
      return {
        ...generateResultOf(result, sharing.promptTokensSaved),
        response: this.#head(),
        request: { body: request.body },
        warnings: request.warnings,
      };
    });
  }

  async doStream(options: LanguageModelV4CallOptions): Promise<LanguageModelV4StreamResult> {
    const { prompt, abortSignal: signal, includeRawChunks: raw = false } = options;
    const request = chatRequest(options);
    const lease = await this.engines().hold(this.modelId, { signal, prompt });
    // Who cancels the stream ends the row as who aborts the call does.
    const ending = new AbortController();
    const end = (): void => ending.abort(signal?.reason);
    if (signal?.aborted === true) end();
    signal?.addEventListener('abort', end, { signal: ending.signal });
    const parts = this.#parts(lease, request, { prompt, ending, raw });
    let waiting: IteratorResult<LanguageModelV4StreamPart, void> | undefined;
    try {
      // What is refused is an error of the call rather than of its stream.
      waiting = await parts.next();
    } catch (error) {
      throw callErrorOf(error, prompt, signal);
    }
    const stream = new ReadableStream<LanguageModelV4StreamPart>(
      {
        pull: async (controller) => {
          try {
            const next = waiting ?? (await parts.next());
            waiting = undefined;
            if (next.done === true) controller.close();
            else controller.enqueue(next.value);
          } catch (error) {
            controller.error(callErrorOf(error, prompt, signal));
          }
        },
        cancel: async () => {
          ending.abort();
          await parts.return();
        },
      },
      { highWaterMark: 0 },
    );
    return { stream, request: { body: request.body } };
  }

  /** All parts of a stream, of which the first comes with the first of the answer. */
  async *#parts(
    lease: ModelLease,
    request: ChatRequest,
    { prompt, ending, raw }: { readonly prompt: unknown; readonly ending: AbortController; readonly raw: boolean },
  ): AsyncGenerator<LanguageModelV4StreamPart, void, undefined> {
    const parts = new AnswerParts();
    let [failure, begun]: [unknown, boolean] = [undefined, false];
    try {
      const results = answersOf(lease.engine, request, ending.signal);
      let result: RowResult | undefined;
      for await (const event of results.events()) {
        if (event.type === 'result') ({ result } = event);
        if (result?.error && !isAnswer(result)) throw rowErrorOf(result.error, prompt);
        if (!begun) {
          yield { type: 'stream-start', warnings: request.warnings };
          yield { type: 'response-metadata', ...this.#head() };
        }
        begun = true;
        if (raw) yield { type: 'raw', rawValue: event.type === 'delta' ? event.delta : event.result };
        if (event.type === 'delta') yield* parts.grown(event.delta);
      }
      if (result) yield* parts.ended(result, (await results.stats).sharing.promptTokensSaved);
    } catch (error) {
      failure = error;
      throw error;
    } finally {
      lease.release(failure);
      // Nobody listens to the call's signal any more.
      ending.abort();
    }
  }

  #head(): { readonly id: string; readonly timestamp: Date; readonly modelId: string } {
    return { id: `spillway-${randomUUID()}`, timestamp: new Date(), modelId: this.modelId };
  }
}

/** @throws RowError where the request is no row */
function answersOf(engine: ServedEngine, { body, call }: ChatRequest, signal: AbortSignal | undefined): ServedResults {
  const row = rowOfBody(CHAT, body, { id: '0', line: 1 });
  const { logprobs, priority, truncate, schemaInPrompt = true } = call;
  return engine.generate([row], {
    reasoning: 'separate',
    schemaInPrompt,
    maxNewTokens: mostTokens(engine),
    ...(logprobs !== undefined && { logprobs }),
    ...(priority !== undefined && { priority }),
    ...(truncate !== undefined && { truncate }),
    ...(signal && { signal }),
  });
}

/** Tokens that an answer may have where nobody says. */
export function mostTokens({ source }: ServedEngine): number {
  const context = source?.decoder?.contextTokens ?? Infinity;
  return Math.max(1, Math.min(MOST_TOKENS, Math.floor(context / 2)));
}
