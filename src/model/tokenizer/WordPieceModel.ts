import type { Work } from '../../collections/drained.js';
import type { Guard } from './Guard.js';
import type { TokenModel } from './TokenModel.js';

export interface WordPieceOptions {
  readonly vocabulary: ReadonlyMap<string, number>;
  readonly unknownToken: number | undefined;
  /** The beginning of pieces that go on after another one of the word. */
  readonly continuingPrefix: string;
  /** A word of more characters is unknown as a whole. */
  readonly mostCharacters: number;
  readonly guard: Guard;
}

/** BERT's model: of a word the longest piece first, again and again; one that cannot be written so is unknown. */
export class WordPieceModel implements TokenModel {
  readonly #options: WordPieceOptions;
  /** Units of the longest piece, without the prefix of those that go on. */
  readonly #longest: number;

  constructor(options: WordPieceOptions) {
    this.#options = options;
    let longest = 0;
    for (const token of options.vocabulary.keys()) longest = Math.max(longest, token.length);
    this.#longest = longest;
  }

  *encodeInParts(piece: string, out: number[]): Work<void> {
    yield;
    this.encode(piece, out);
  }

  encode(piece: string, out: number[]): void {
    const { unknownToken, mostCharacters } = this.#options;
    const ids = piece.length > 2 * mostCharacters || countOf(piece) > mostCharacters ? undefined : this.#pieces(piece);
    if (ids) for (const id of ids) out.push(id);
    else if (unknownToken !== undefined) out.push(unknownToken);
  }

  #pieces(word: string): readonly number[] | undefined {
    const { vocabulary, continuingPrefix, guard } = this.#options;
    const ids: number[] = [];
    for (let start = 0, next; start < word.length; start = next) {
      const prefix = start === 0 ? '' : continuingPrefix;
      let end = Math.min(word.length, start + this.#longest);
      let id: number | undefined;
      for (; end > start; end--) {
        // Half a character is no piece.
        if (end < word.length && (word.codePointAt(end - 1) ?? 0) > 0xffff) continue;
        guard.steps.take(end - start);
        id = vocabulary.get(prefix + word.slice(start, end));
        if (id !== undefined) break;
      }
      if (id === undefined) return undefined;
      ids.push(id);
      next = end;
    }
    return ids;
  }
}

function countOf(text: string): number {
  let count = 0;
  for (let at = 0; at < text.length; at += (text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1) count++;
  return count;
}
