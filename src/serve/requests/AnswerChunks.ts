import type { RowDelta, RowResult } from '../../Row.js';
import type { ToolCallDelta } from '../../rows/toolCalls.js';
import type { ServedEngine } from '../ServeOptions.js';
import { type AnswerHead, placeOf, type Usage } from './answers.js';
import { logprobsOf } from './logprobs.js';
import type { GenerationRequest } from './readRequest.js';

/**
 * The parts in which an answer goes out, as OpenAI writes them: the role first, then what it grows by, then how it
 * ended. Log-probabilities come with the end, for the whole of the answer.
 */
export class AnswerChunks {
  readonly #begun = new Set<number>();
  readonly #called = new Set<number>();

  constructor(
    private readonly head: AnswerHead,
    private readonly request: GenerationRequest,
    private readonly tokenizer: ServedEngine['tokenizer'],
  ) {}

  /** Gives the chunks of more of an answer. */
  *grown(delta: RowDelta): Iterable<object> {
    const place = placeOf(delta, this.request.n);
    const { text, reasoning, toolCalls } = delta;
    const reasoned = reasoning === undefined ? {} : { reasoning_content: reasoning };
    if (this.request.text) {
      if (text !== '' || reasoning !== undefined)
        yield this.#chunk([{ index: place, text, ...reasoned, logprobs: null, finish_reason: null }]);
      return;
    }
    yield* this.#role(place);
    if (toolCalls) this.#called.add(place);
    const grown = {
      ...reasoned,
      ...(text !== '' && { content: text }),
      ...(toolCalls && { tool_calls: toolCalls.map(callPiece) }),
    };
    if (Object.keys(grown).length > 0) yield this.#chunk([this.#choice(place, grown)]);
  }

  /** Gives the chunks of an answer that has ended. */
  *ended(result: RowResult): Iterable<object> {
    const place = placeOf(result, this.request.n);
    const { finishReason, toolCalls, attempts } = result;
    const logprobs = logprobsOf(result, this.request.text, this.tokenizer);
    const tried = attempts === undefined ? {} : { attempts };
    if (this.request.text) {
      yield this.#chunk([{ index: place, text: '', logprobs, finish_reason: finishReason, ...tried }]);
      return;
    }
    yield* this.#role(place);
    if (toolCalls && !this.#called.has(place))
      yield this.#chunk([this.#choice(place, { tool_calls: toolCalls.map((call, index) => ({ index, ...call })) })]);
    yield this.#chunk([{ ...this.#choice(place, {}, finishReason), logprobs, ...tried }]);
  }

  /** Gives the usage of all of it. */
  usage(usage: Usage): object {
    return { ...this.#chunk([]), usage };
  }

  *#role(place: number): Iterable<object> {
    if (this.#begun.has(place)) return;
    this.#begun.add(place);
    yield this.#chunk([this.#choice(place, { role: 'assistant', content: '' })]);
  }

  #choice(index: number, delta: object, finish: string | null = null): object {
    return { index, delta, logprobs: null, finish_reason: finish };
  }

  #chunk(choices: readonly object[]): object {
    const { id, created, model } = this.head;
    const object = this.request.text ? 'text_completion' : 'chat.completion.chunk';
    return { id, object, created, model, choices, ...(this.request.includeUsage && { usage: null }) };
  }
}

/**
 * Gives the piece by which a call has grown, as OpenAI's chunks have it: id, type and name come with its first piece.
 */
function callPiece({ index, id, name, arguments: grown }: ToolCallDelta): object {
  return {
    index,
    ...(id !== undefined && { id, type: 'function' }),
    function: { ...(name !== undefined && { name }), arguments: grown },
  };
}
