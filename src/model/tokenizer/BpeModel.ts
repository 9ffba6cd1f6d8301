import { MergeQueue, type Merger } from './MergeQueue.js';
import { PairTable } from './PairTable.js';
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
  #symbols = new Int32Array(64);

  constructor(options: BpeOptions) {
    this.#options = options;
    const { merges } = options;
    this.#ranks = new PairTable(merges.length / 3);
    this.#merged = merges.filter((_, at) => at % 3 === 2);
    for (let rank = 0; rank < this.#merged.length; rank++)
      this.#ranks.set(merges[3 * rank] ?? 0, merges[3 * rank + 1] ?? 0, rank);
  }

  encode(piece: string, out: number[]): void {
    if (this.#options.wholePieceFirst) {
      const whole = this.#options.vocabulary.get(piece);
      if (whole !== undefined) {
        out.push(whole);
        return;
      }
    }
    const count = this.#split(piece);
    const symbols = this.#symbols;
    if (count === 1) out.push(symbols[0] ?? 0);
    else for (const position of this.#queue.mergeAll(count, this)) out.push(symbols[position] ?? 0);
  }

  rank(left: number, right: number): number {
    return this.#ranks.get(this.#symbols[left] ?? -1, this.#symbols[right] ?? -1);
  }

  merge(left: number, right: number): void {
    this.#symbols[left] = this.#merged[this.rank(left, right)] ?? 0;
  }

  /** Writes the ids of the piece's characters to `#symbols`. @returns how many */
  #split(piece: string): number {
    const { vocabulary, unknownToken, fuseUnknown, byteFallback, continuingPrefix, endOfWordSuffix } = this.#options;
    // Each UTF-16 unit gives at most three bytes.
    if (this.#symbols.length < piece.length * 3) this.#symbols = new Int32Array(piece.length * 6);
    const symbols = this.#symbols;
    let count = 0;
    let afterUnknown = false;
    for (let at = 0; at < piece.length;) {
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
      const bytes = byteFallback ? this.#byteTokens(token) : undefined;
      if (bytes !== undefined) {
        for (const byte of bytes) symbols[count++] = byte;
        afterUnknown = false;
      } else if (unknownToken !== undefined) {
        if (!(fuseUnknown && afterUnknown)) symbols[count++] = unknownToken;
        afterUnknown = true;
      }
    }
    return count;
  }

  #byteTokens(token: string): number[] | undefined {
    const ids: number[] = [];
    for (const byte of this.#utf8.encode(token)) {
      const id = this.#options.vocabulary.get(byteTokenName(byte));
      if (id === undefined) return undefined;
      ids.push(id);
    }
    return ids;
  }
}

/** The name of the token that stands for one byte, e.g. `<0x0A>`. */
export function byteTokenName(byte: number): string {
  return `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`;
}
