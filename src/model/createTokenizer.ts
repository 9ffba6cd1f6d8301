import { RowError } from '../errors/RowError.js';
import type { TokenizerSource } from './ModelSource.js';
import type { Tokenizer } from './Tokenizer.js';
import { fromGguf } from './tokenizer/fromGguf.js';
import { fromTokenizerJson } from './tokenizer/fromTokenizerJson.js';
import { PartsTokenizer } from './tokenizer/PartsTokenizer.js';

/**
 * Builds a model's tokenizer from what its files say.
 * @param vocabularySize rows of the model's embedding, in tokens. A vocabulary may have fewer or more: ids without a
 * token have no text, and ids that the model lacks are for the caller to refuse. An end token that the model lacks can
 * never be sampled and is left out.
 * @throws ModelFileError for anything in the files that is wrong or unknown
 */
export function createTokenizer(source: TokenizerSource, vocabularySize: number): Tokenizer {
  if (source.kind === 'none') return new MissingTokenizer(source.reason, vocabularySize, source.endTokens ?? []);
  const parts = source.kind === 'gguf' ? fromGguf(source) : fromTokenizerJson(source);
  for (const id of [...parts.prefix, ...parts.suffix]) {
    if (id >= vocabularySize)
      parts.guard.fields.refuse(
        'token added to every prompt',
        `id ${id}`,
        `an id below ${vocabularySize}, the model's vocabulary size`,
      );
  }
  return new PartsTokenizer(parts, vocabularySize);
}

/** Stands in where a model comes without a tokenizer: rows with `tokens` work and have no text, others are refused. */
class MissingTokenizer implements Tokenizer {
  readonly beginToken = undefined;
  readonly endTokens: ReadonlySet<number>;
  readonly hasChatTemplate = false;

  constructor(
    readonly reason: string,
    readonly vocabularySize: number,
    endTokens: readonly number[],
  ) {
    this.endTokens = new Set(endTokens.filter((id) => id < vocabularySize));
  }

  controlToken(): undefined {
    return undefined;
  }

  encode(): never {
    return this.#refuse('invalid-row');
  }

  encodeInParts(): never {
    return this.#refuse('invalid-row');
  }

  decode(): string {
    return '';
  }

  stream(): { push(token: number): string; end(): string } {
    return { push: () => '', end: () => '' };
  }

  text(): string {
    return '';
  }

  renderChat(): never {
    return this.#refuse('chat-template');
  }

  encodeChat(): never {
    return this.#refuse('chat-template');
  }

  encodeChatInParts(): never {
    return this.#refuse('chat-template');
  }

  #refuse(code: 'invalid-row' | 'chat-template'): never {
    throw new RowError(code, `the model has no tokenizer (${this.reason}): found text, expected a row with tokens`);
  }
}
