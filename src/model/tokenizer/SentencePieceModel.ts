import type { Work } from '../../collections/drained.js';
import { byteTokens } from './BpeModel.js';
import type { Guard } from './Guard.js';
import { MergeQueue, type Merger } from './MergeQueue.js';
import { PART_UNITS } from './parts.js';
import type { Steps } from '../../regex/Steps.js';
import type { TokenModel } from './TokenModel.js';

export interface SentencePieceOptions {
  /** Pieces that text may become (no control, unknown or byte tokens): piece to id. */
  readonly pieces: ReadonlyMap<string, number>;
  /** Score of each id; the neighbours whose concatenation has the highest score merge first. */
  readonly scores: ArrayLike<number>;
  /** Pieces that exist for the sake of merging only: they are taken apart again at the end. */
  readonly unused: ReadonlySet<number>;
  /** All tokens by name, for the byte tokens. */
  readonly vocabulary: ReadonlyMap<string, number>;
  readonly unknownToken: number | undefined;
  /** The guard that looking for long pieces takes its steps from. */
  readonly guard?: Guard;
}

/** Looking for shorter pieces takes about as long as looking for one unit. */
const LONG = 64;

/**
 * SentencePiece's BPE: there are no merge rules, any two neighbours merge whose concatenation is a piece. Text that is
 * no piece in the end becomes byte tokens.
 */
export class SentencePieceModel implements TokenModel, Merger {
  readonly #options: SentencePieceOptions;
  /** Rank of each id among the scores: 0 for the highest, equal for equal scores. */
  readonly #rankOfId: Int32Array;
  readonly #longestPiece: number;
  readonly #queue = new MergeQueue();
  readonly #utf8 = new TextEncoder();
  readonly #byteTokens: readonly (number | undefined)[];
  #text = '';
  #steps: Steps | undefined;
  #starts = new Int32Array(64);
  #ends = new Int32Array(64);
  /** How unused pieces of the current text came about. */
  #halves = new Map<string, readonly [string, string]>();

  /** @param other has the same options: its tables serve both, the buffers are each one's own */
  constructor(options: SentencePieceOptions, other?: SentencePieceModel) {
    this.#options = options;
    this.#byteTokens = other ? other.#byteTokens : byteTokens(options.vocabulary);
    if (other) {
      this.#rankOfId = other.#rankOfId;
      this.#longestPiece = other.#longestPiece;
      return;
    }
    const distinct = Float64Array.from(new Set(Array.from(options.pieces.values(), (id) => options.scores[id] ?? 0)))
      .sort()
      .reverse();
    const rankOfScore = new Map(Array.from(distinct, (score, rank) => [score, rank] as const));
    this.#rankOfId = new Int32Array(options.scores.length);
    let longest = 0;
    for (const [piece, id] of options.pieces) {
      this.#rankOfId[id] = rankOfScore.get(options.scores[id] ?? 0) ?? 0;
      longest = Math.max(longest, piece.length);
    }
    this.#longestPiece = longest;
  }

  encode(piece: string, out: number[]): void {
    const count = this.#begin(piece);
    for (const position of this.#queue.mergeAll(count, this)) this.#emitAt(position, out);
  }

  encodeInParts(piece: string, out: number[]): Work<void> {
    return new SentencePieceModel(this.#options, this).#encodeInParts(piece, out);
  }

  *#encodeInParts(piece: string, out: number[]): Work<void> {
    const left = yield* this.#queue.mergeInParts(this.#begin(piece), this);
    for (let at = 0; at < left.length; yield) {
      const end = Math.min(left.length, at + PART_UNITS);
      for (; at < end; at++) this.#emitAt(left[at] ?? 0, out);
    }
  }

  /** @returns the number of the piece's characters */
  #begin(piece: string): number {
    this.#text = piece;
    this.#steps = this.#options.guard?.steps;
    this.#halves.clear();
    if (this.#starts.length < piece.length) {
      this.#starts = new Int32Array(piece.length * 2);
      this.#ends = new Int32Array(piece.length * 2);
    }
    let count = 0;
    for (let at = 0; at < piece.length; count++) {
      this.#starts[count] = at;
      at += (piece.codePointAt(at) ?? 0) > 0xffff ? 2 : 1;
      this.#ends[count] = at;
    }
    return count;
  }

  #emitAt(position: number, out: number[]): void {
    this.#emit(this.#text.slice(this.#starts[position], this.#ends[position]), out);
  }

  rank(left: number, right: number): number {
    const start = this.#starts[left] ?? 0;
    const end = this.#ends[right] ?? 0;
    if (end - start > this.#longestPiece) return -1;
    if (end - start > LONG) this.#steps?.take(end - start);
    const id = this.#options.pieces.get(this.#text.slice(start, end));
    return id === undefined ? -1 : (this.#rankOfId[id] ?? -1);
  }

  merge(left: number, right: number): void {
    const start = this.#starts[left] ?? 0;
    const middle = this.#ends[left] ?? 0;
    const end = this.#ends[right] ?? 0;
    if (this.#options.unused.size > 0) {
      const whole = this.#text.slice(start, end);
      if (this.#options.unused.has(this.#options.pieces.get(whole) ?? -1)) {
        this.#halves.set(whole, [this.#text.slice(start, middle), this.#text.slice(middle, end)]);
      }
    }
    this.#ends[left] = end;
  }

  #emit(symbol: string, out: number[]): void {
    const id = this.#options.pieces.get(symbol);
    const halves = id !== undefined && this.#options.unused.has(id) ? this.#halves.get(symbol) : undefined;
    if (halves !== undefined) {
      this.#emit(halves[0], out);
      this.#emit(halves[1], out);
    } else if (id !== undefined) {
      out.push(id);
    } else {
      const bytes = Array.from(this.#utf8.encode(symbol), (byte) => this.#byteTokens[byte]);
      if (bytes.every((byte) => byte !== undefined)) out.push(...bytes);
      else if (this.#options.unknownToken !== undefined) out.push(this.#options.unknownToken);
    }
  }
}
