import type { TokenizerSource } from './ModelSource.js';
import type { Tokenizer } from './Tokenizer.js';
import { fromGguf } from './tokenizer/fromGguf.js';
import { fromTokenizerJson } from './tokenizer/fromTokenizerJson.js';
import { MissingTokenizer } from './tokenizer/MissingTokenizer.js';
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
