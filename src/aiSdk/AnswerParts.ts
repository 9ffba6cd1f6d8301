import type { LanguageModelV4StreamPart } from '@ai-sdk/provider';
import type { RowDelta, RowResult } from '../Row.js';
import { finishOf, metadataOf, usageOf } from './answers.js';

interface OpenCall {
  readonly id: string;
  readonly name: string;
  input: string;
}

/** The parts in which an answer goes out: blocks of reasoning, of text and of calls, each begun, grown and ended. */
export class AnswerParts {
  #open: { readonly type: 'text' | 'reasoning'; readonly id: string } | undefined;
  readonly #calls = new Map<number, OpenCall>();
  #blocks = 0;
  #call: OpenCall | undefined;

  /** Gives what is sent of more of an answer. */
  *grown({ text, reasoning = '', toolCalls = [] }: RowDelta): Iterable<LanguageModelV4StreamPart> {
    yield* this.#block('reasoning', reasoning);
    yield* this.#block('text', text);
    for (const { index, id, name, arguments: grown } of toolCalls) {
      let call = this.#calls.get(index);
      if (!call && id !== undefined && name !== undefined) {
        yield* this.#endBlock();
        yield* this.#endCall();
        call = { id, name, input: '' };
        this.#calls.set(index, call);
        this.#call = call;
        yield { type: 'tool-input-start', id, toolName: name };
      }
      if (!call || grown === '') continue;
      call.input += grown;
      yield { type: 'tool-input-delta', id: call.id, delta: grown };
    }
  }

  /** Gives what is sent of an answer that has ended. */
  *ended(result: RowResult, cached: number): Iterable<LanguageModelV4StreamPart> {
    yield* this.#endBlock();
    yield* this.#endCall();
    // Of an answer that was not told of as it grew.
    for (const { id, function: called } of (result.toolCalls ?? []).slice(this.#calls.size)) {
      this.#call = { id, name: called.name, input: called.arguments };
      yield { type: 'tool-input-start', id, toolName: called.name };
      yield { type: 'tool-input-delta', id, delta: called.arguments };
      yield* this.#endCall();
    }
    yield { type: 'finish', usage: usageOf(result, cached), finishReason: finishOf(result), ...metadataOf(result) };
  }

  *#block(type: 'text' | 'reasoning', delta: string): Iterable<LanguageModelV4StreamPart> {
    if (delta === '') return;
    if (this.#open?.type !== type) {
      yield* this.#endBlock();
      this.#open = { type, id: String(this.#blocks++) };
      yield { type: `${type}-start`, id: this.#open.id };
    }
    yield { type: `${type}-delta`, id: this.#open.id, delta };
  }

  *#endBlock(): Iterable<LanguageModelV4StreamPart> {
    if (this.#open) yield { type: `${this.#open.type}-end`, id: this.#open.id };
    this.#open = undefined;
  }

  *#endCall(): Iterable<LanguageModelV4StreamPart> {
    if (!this.#call) return;
    const { id, name, input } = this.#call;
    yield { type: 'tool-input-end', id };
    yield { type: 'tool-call', toolCallId: id, toolName: name, input };
    this.#call = undefined;
  }
}
