import type { Work } from '../../collections/drained.js';
import { MergeQueue, type Merger } from './MergeQueue.js';
import { PairTable } from './PairTable.js';
import { PART_UNITS } from './parts.js';
import type { TokenModel } from './TokenModel.js';

export interface BpeOptions {
  /** Token to id. */
  readonly vocabulary: ReadonlyMap<string, number>;
  /** Three ids a merge, left, right and what comes of them, the first merges first: see `readMerges`. */
  readonly merges: Int32Array;
  readonly unknownToken?: number | undefined;
  /** Neighbouring unknown characters become one unknown token. */
  readonly fuseUnknown: boolean;
  /** A character that is no token becomes its UTF-8 bytes' tokens `<0xE2>`. */
  readonly byteFallback: boolean;
  /** A piece that is a token as a whole is that token, whatever the merges say. */
  readonly wholePieceFirst: boolean;
  readonly continuingPrefix: string;
  readonly endOfWordSuffix: string;
}

/** Byte-pair encoding by ranked merges, as the `BPE` model of tokenizer.json defines it. */
export class BpeModel implements TokenModel, Merger {
  readonly #options: BpeOptions;
  readonly #ranks: PairTable;
  readonly #merged: Int32Array;
  readonly #queue = new MergeQueue();
  readonly #utf8 = new TextEncoder();
  readonly #byteTokens: readonly (number | undefined)[];
  #symbols = new Int32Array(64);
  #count = 0;
  #afterUnknown = false;

  /** @param other has the same options: its tables serve both, the buffers are each one's own */
  constructor(options: BpeOptions, other?: BpeModel) {
    this.#options = options;
    this.#byteTokens = other ? other.#byteTokens : byteTokens(options.vocabulary);
    if (other) {
      this.#ranks = other.#ranks;
      this.#merged = other.#merged;
      return;
    }
    const { merges } = options;
    this.#ranks = new PairTable(merges.length / 3);
    this.#merged = merges.filter((_, at) => at % 3 === 2);
    for (let rank = 0; rank < this.#merged.length; rank++)
      this.#ranks.set(merges[3 * rank] ?? 0, merges[3 * rank + 1] ?? 0, rank);
  }

  encode(piece: string, out: number[]): void {
    if (this.#isWhole(piece, out)) return;
    this.#count = 0;
    this.#split(piece, 0, piece.length);
    const symbols = this.#symbols;
    if (this.#count === 1) out.push(symbols[0] ?? 0);
    else for (const position of this.#queue.mergeAll(this.#count, this)) out.push(symbols[position] ?? 0);
  }

  encodeInParts(piece: string, out: number[]): Work<void> {
    return new BpeModel(this.#options, this).#encodeInParts(piece, out);
  }

  *#encodeInParts(piece: string, out: number[]): Work<void> {
    if (this.#isWhole(piece, out)) return;
    for (let at = 0; at < piece.length; yield) at = this.#split(piece, at, at + PART_UNITS);
    const left = yield* this.#queue.mergeInParts(this.#count, this);
    for (let at = 0; at < left.length; yield) {
      const end = Math.min(left.length, at + PART_UNITS);
      for (; at < end; at++) out.push(this.#symbols[left[at] ?? 0] ?? 0);
    }
  }

  #isWhole(piece: string, out: number[]): boolean {
    const whole = this.#options.wholePieceFirst ? this.#options.vocabulary.get(piece) : undefined;
    if (whole !== undefined) out.push(whole);
    return whole !== undefined;
  }

  rank(left: number, right: number): number {
    return this.#ranks.get(this.#symbols[left] ?? -1, this.#symbols[right] ?? -1);
  }

  merge(left: number, right: number): void {
    this.#symbols[left] = this.#merged[this.rank(left, right)] ?? 0;
  }

  /** Appends the ids of a part of the piece's characters to `#symbols`. @returns where the part ended */
  #split(piece: string, from: number, to: number): number {
    const { vocabulary, unknownToken, fuseUnknown, byteFallback, continuingPrefix, endOfWordSuffix } = this.#options;
    // Each UTF-16 unit gives at most three bytes.
    if (this.#symbols.length < piece.length * 3) this.#symbols = new Int32Array(piece.length * 6);
    const symbols = this.#symbols;
    let count = this.#count;
    let afterUnknown = from > 0 && this.#afterUnknown;
    let at = from;
    while (at < to && at < piece.length) {
      const end = at + ((piece.codePointAt(at) ?? 0) > 0xffff ? 2 : 1);
      const character = piece.slice(at, end);
      let token = character;
      if (continuingPrefix !== '' && at > 0) token = continuingPrefix + token;
      if (endOfWordSuffix !== '' && end === piece.length) token += endOfWordSuffix;
      at = end;
      const id = vocabulary.get(token);
      if (id !== undefined) {
        symbols[count++] = id;
        afterUnknown = false;
        continue;
      }
      const bytes = byteFallback ? this.#bytesOf(token) : undefined;
      if (bytes !== undefined) {
        for (const byte of bytes) symbols[count++] = byte;
        afterUnknown = false;
      } else if (unknownToken !== undefined) {
        if (!(fuseUnknown && afterUnknown)) symbols[count++] = unknownToken;
        afterUnknown = true;
      }
    }
    [this.#count, this.#afterUnknown] = [count, afterUnknown];
    return at;
  }

  #bytesOf(token: string): number[] | undefined {
    const ids: number[] = [];
    for (const byte of this.#utf8.encode(token)) {
      const id = this.#byteTokens[byte];
      if (id === undefined) return undefined;
      ids.push(id);
    }
    return ids;
  }
}

/** The token of each byte, where there is one. */
export function byteTokens(vocabulary: ReadonlyMap<string, number>): readonly (number | undefined)[] {
  return Array.from({ length: 256 }, (_, byte) => vocabulary.get(byteTokenName(byte)));
}

/** The name of the token that stands for one byte, e.g. `<0x0A>`. */
function byteTokenName(byte: number): string {
  return `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`;
}
