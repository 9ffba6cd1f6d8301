import type { TokenTexts } from '../../bindings/Grammars.js';
import { ResponseFormatError } from '../../errors/RowError.js';
import type { Tokenizer } from '../../model/Tokenizer.js';

/**
 * A tokenizer's tokens as bytes, as grammars are compiled against them.
 * @param vocabularySize tokens that the model has logits for
 * @throws ResponseFormatError where its decoder makes text of several tokens together
 */
export function tokenTexts(
  { answerBytes, endTokens }: Pick<Tokenizer, 'answerBytes' | 'endTokens'>,
  vocabularySize: number,
): TokenTexts {
  if (!answerBytes) {
    throw new ResponseFormatError(
      "responseFormat: found a tokenizer whose tokens are no text by themselves, expected one of bytes or pieces: this model's answers cannot be held to a format",
    );
  }
  const all = new Bytes();
  const first = new Bytes();
  const firstTokens: number[] = [];
  for (let token = 0; token < vocabularySize; token++) {
    const bytes = answerBytes(token, false);
    const atFirst = answerBytes(token, true);
    all.add(bytes);
    if (Buffer.compare(bytes, atFirst) === 0) continue;
    firstTokens.push(token);
    first.add(atFirst);
  }
  return {
    bytes: all.joined(),
    lengths: Uint32Array.from(all.lengths),
    firstTokens: Uint32Array.from(firstTokens),
    firstBytes: first.joined(),
    firstLengths: Uint32Array.from(first.lengths),
    ends: Uint32Array.from([...endTokens].filter((token) => token < vocabularySize)),
  };
}

class Bytes {
  readonly lengths: number[] = [];
  readonly #parts: Uint8Array[] = [];

  add(bytes: Uint8Array): void {
    this.lengths.push(bytes.length);
    this.#parts.push(bytes);
  }

  joined(): Uint8Array {
    const joined = new Uint8Array(this.lengths.reduce((sum, length) => sum + length, 0));
    let at = 0;
    for (const part of this.#parts) {
      joined.set(part, at);
      at += part.length;
    }
    return joined;
  }
}
