import type { Work } from '../../collections/drained.js';
import { PART_UNITS } from './parts.js';

/** Splits one piece of text (a word, as the pre-tokenizer made it) into token ids. */
export interface TokenModel {
  /**
   * Appends the ids of `piece` to `out`. Any text is fine; what the vocabulary cannot express is dropped or becomes the
   * unknown token.
   */
  encode(piece: string, out: number[]): void;
  /** The same of a long piece, stopping on the way. */
  encodeInParts(piece: string, out: number[]): Work<void>;
}

/** Longer pieces are rare and would let one row fill the cache. */
const LONGEST_PIECE = 64;
const ENTRIES = 32_768;

/**
 * Remembers the ids of short pieces, since words repeat. Two generations: when the young one is full it becomes the old
 * one, so that memory is bounded and a frequent word is never more than one miss away.
 */
export class CachedModel implements TokenModel {
  readonly #model: TokenModel;
  #young = new Map<string, readonly number[]>();
  #old = new Map<string, readonly number[]>();

  constructor(model: TokenModel) {
    this.#model = model;
  }

  *encodeInParts(piece: string, out: number[]): Work<void> {
    if (piece.length > LONGEST_PIECE) yield* this.#model.encodeInParts(piece, out);
    else this.encode(piece, out);
  }

  encode(piece: string, out: number[]): void {
    if (piece.length > LONGEST_PIECE) {
      this.#model.encode(piece, out);
      return;
    }
    const ids = this.#young.get(piece) ?? this.#remembered(piece);
    for (const id of ids) out.push(id);
  }

  #remembered(piece: string): readonly number[] {
    let ids = this.#old.get(piece);
    if (ids === undefined) {
      const fresh: number[] = [];
      this.#model.encode(piece, fresh);
      ids = fresh;
    }
    if (this.#young.size >= ENTRIES) {
      this.#old = this.#young;
      this.#young = new Map();
    }
    this.#young.set(piece, ids);
    return ids;
  }
}

/**
 * Lets a model without a pre-tokenizer work word by word. Where no piece has `▁` after another character, nothing ever
 * merges across the beginning of a word, so cutting there changes no result; it makes words cacheable.
 * @param pieces all tokens that merging can make
 * @returns undefined if some piece does
 */
export function wordByWord(model: TokenModel, pieces: Iterable<string>): TokenModel | undefined {
  for (const piece of pieces) if (/[^\u2581]\u2581/u.test(piece)) return undefined;
  return {
    encode: (text, out) => {
      for (let start = 0, end; start < text.length; start = end) {
        end = endOfWord(text, start);
        model.encode(text.slice(start, end), out);
      }
    },
    *encodeInParts(text, out) {
      let stop = PART_UNITS;
      for (let start = 0, end; start < text.length; start = end) {
        end = endOfWord(text, start);
        if (end - start > PART_UNITS) yield* model.encodeInParts(text.slice(start, end), out);
        else model.encode(text.slice(start, end), out);
        if (end < stop) continue;
        stop = end + PART_UNITS;
        yield;
      }
    },
  };
}

/** Where the next `▁` stands that begins a word. */
function endOfWord(text: string, start: number): number {
  for (let at = text.indexOf('▁', start + 1); at >= 0; at = text.indexOf('▁', at + 1))
    if (text.charAt(at - 1) !== '▁') return at;
  return text.length;
}

/** Each piece is one token of the vocabulary or the unknown one. Small models made for tests have it. */
export class WordLevelModel implements TokenModel {
  constructor(
    private readonly vocabulary: ReadonlyMap<string, number>,
    private readonly unknownToken: number | undefined,
  ) {}

  *encodeInParts(piece: string, out: number[]): Work<void> {
    yield;
    this.encode(piece, out);
  }

  encode(piece: string, out: number[]): void {
    const id = this.vocabulary.get(piece) ?? this.unknownToken;
    if (id !== undefined) out.push(id);
  }
}
