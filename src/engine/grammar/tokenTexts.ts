import type { TokenTexts } from '../../bindings/Grammars.js';
import { ResponseFormatError } from '../../errors/RowError.js';
import type { Tokenizer } from '../../model/Tokenizer.js';

/** Control tokens by their texts. */
export interface ControlTokens {
  readonly markers: readonly string[];
  readonly stops: readonly string[];
}

/**
 * A tokenizer's tokens as bytes, as grammars are compiled against them.
 * @param vocabularySize tokens that the model has logits for
 * @param control control tokens that are text, and such as end an answer beside the model's own
 * @throws ResponseFormatError where its decoder makes text of several tokens together
 */
export function tokenTexts(
  tokenizer: Pick<Tokenizer, 'answerBytes' | 'endTokens' | 'controlToken'>,
  vocabularySize: number,
  { markers, stops }: ControlTokens = { markers: [], stops: [] },
): TokenTexts {
  const { answerBytes, endTokens } = tokenizer;
  if (!answerBytes) {
    throw new ResponseFormatError(
      "responseFormat: found a tokenizer whose tokens are no text by themselves, expected one of bytes or pieces: this model's answers cannot be held to a format",
    );
  }
  const marks = new Map(markers.map((text) => [tokenizer.controlToken(text), Buffer.from(text)]));
  const ends = new Set([...endTokens, ...stops.map((text) => tokenizer.controlToken(text))]);
  const all = new Bytes();
  const first = new Bytes();
  const firstTokens: number[] = [];
  for (let token = 0; token < vocabularySize; token++) {
    const mark = marks.get(token);
    const bytes = mark ?? answerBytes(token, false);
    const atFirst = mark ?? answerBytes(token, true);
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
    ends: Uint32Array.from([...ends].filter((token) => token !== undefined && token < vocabularySize) as number[]),
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
