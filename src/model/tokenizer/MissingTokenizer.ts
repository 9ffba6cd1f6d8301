import { RowError } from '../../errors/RowError.js';
import type { Tokenizer } from '../Tokenizer.js';

/** Stands in where a model comes without a tokenizer: rows with `tokens` work and have no text, others are refused. */
export class MissingTokenizer implements Tokenizer {
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

  encode(): never {
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

  #refuse(code: 'invalid-row' | 'chat-template'): never {
    throw new RowError(code, `the model has no tokenizer (${this.reason}): found text, expected a row with tokens`);
  }
}
