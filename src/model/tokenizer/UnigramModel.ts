import type { Work } from '../../collections/drained.js';
import { byteTokens } from './BpeModel.js';
import type { Guard } from './Guard.js';
import { PART_UNITS } from './parts.js';
import type { TokenModel } from './TokenModel.js';
import { Trie } from './Trie.js';

export interface UnigramOptions {
  /** Piece and its log-probability; the index is the id, and where there is none the text never becomes it. */
  readonly pieces: readonly (readonly [piece: string, score: number] | undefined)[];
  readonly unknownToken: number | undefined;
  readonly byteFallback: boolean;
  /** The guard that looking for long pieces takes its steps from. */
  readonly guard?: Guard;
}

/** Units that are looked at between two moments at which work may stop. */
const WALKED = 4 * PART_UNITS;

/** Units between two counts of them. */
const COUNTED = 1024;

/** The cost of an unknown character on top of the least likely piece. */
const UNKNOWN_PENALTY = 10;

/**
 * SentencePiece's unigram model: the most probable way to write the piece, found by dynamic programming over its
 * characters.
 */
export class UnigramModel implements TokenModel {
  readonly #options: UnigramOptions;
  readonly #trie: Trie;
  /** The piece that ends at a node of the trie, -1 if none does. */
  readonly #idOf: Int32Array;
  /** By id. */
  readonly #scores: Float64Array;
  readonly #unknownScore: number;
  readonly #vocabulary = new Map<string, number>();
  readonly #utf8 = new TextEncoder();
  readonly #byteTokens: readonly (number | undefined)[];

  constructor(options: UnigramOptions) {
    this.#options = options;
    const units = options.pieces.reduce((sum, piece) => sum + (piece?.[0].length ?? 0), 0);
    this.#trie = new Trie(units);
    this.#idOf = new Int32Array(units + 1).fill(-1);
    this.#scores = Float64Array.from(options.pieces, (piece) => piece?.[1] ?? 0);
    let least = Infinity;
    options.pieces.forEach((known, id) => {
      if (known === undefined) return;
      const [piece, score] = known;
      least = Math.min(least, score);
      this.#vocabulary.set(piece, id);
      let node = 0;
      for (let i = 0; i < piece.length; i++) node = this.#trie.grow(node, piece.charCodeAt(i));
      this.#idOf[node] = id;
    });
    this.#unknownScore = least - UNKNOWN_PENALTY;
    this.#byteTokens = byteTokens(this.#vocabulary);
  }

  encode(piece: string, out: number[]): void {
    const ways = newWays(piece);
    this.#walk(ways, 2 ** 30);
    this.#emit(ways, out, 0, ways.path.length);
  }

  *encodeInParts(piece: string, out: number[]): Work<void> {
    const ways = newWays(piece);
    while (this.#walk(ways, WALKED)) yield;
    for (let at = 0; at < ways.path.length; at += PART_UNITS) {
      this.#emit(ways, out, at, Math.min(at + PART_UNITS, ways.path.length));
      yield;
    }
  }

  /** Goes on through the piece for so many looks; at its end finds the best way. @returns whether there is more */
  #walk(ways: Ways, most: number): boolean {
    const [trie, idOf, scores] = [this.#trie, this.#idOf, this.#scores];
    const { piece, best, from, idAt, path } = ways;
    const size = piece.length;
    const steps = this.#options.guard?.steps;
    let looks = 0;
    let counted = 0;
    let { start } = ways;
    while (start < size) {
      const step = (piece.codePointAt(start) ?? 0) > 0xffff ? 2 : 1;
      const score = best[start] ?? 0;
      let single = false;
      let node = 0;
      let end = start;
      while (end < size) {
        node = trie.child(node, piece.charCodeAt(end++));
        if (node < 0) break;
        const id = idOf[node] ?? -1;
        if (id < 0) continue;
        if (end === start + step) single = true;
        const candidate = score + (scores[id] ?? 0);
        if (from[end] === -1 || candidate > (best[end] ?? 0)) {
          best[end] = candidate;
          from[end] = start;
          idAt[end] = id;
        }
      }
      looks += end - start;
      end = start + step;
      if (!single && (from[end] === -1 || score + this.#unknownScore > (best[end] ?? 0))) {
        best[end] = score + this.#unknownScore;
        from[end] = start;
        idAt[end] = -1;
      }
      start = end;
      if (looks - counted < COUNTED) continue;
      steps?.take(looks - counted);
      counted = looks;
      if (looks < most) continue;
      ways.start = start;
      return true;
    }
    steps?.take(looks - counted);
    for (let end = size; end > 0; end = from[end] ?? 0) path.push(end);
    path.reverse();
    return false;
  }

  #emit(ways: Ways, out: number[], first: number, last: number): void {
    const { piece, idAt, path } = ways;
    let { unknownFrom } = ways;
    let start = path[first - 1] ?? 0;
    for (let at = first; at < last; at++) {
      const end = path[at] ?? 0;
      const id = idAt[end] ?? -1;
      const known = id >= 0 && id !== this.#options.unknownToken;
      if (known) {
        if (unknownFrom >= 0) this.#emitUnknown(piece.slice(unknownFrom, start), out);
        unknownFrom = -1;
        out.push(id);
      } else if (unknownFrom < 0) unknownFrom = start;
      start = end;
    }
    ways.unknownFrom = unknownFrom;
    if (last === path.length && unknownFrom >= 0) this.#emitUnknown(piece.slice(unknownFrom), out);
  }

  /** Neighbouring unknown characters are one unknown token, unless there are tokens for all their bytes. */
  #emitUnknown(text: string, out: number[]): void {
    if (this.#options.byteFallback) {
      const bytes = Array.from(this.#utf8.encode(text), (byte) => this.#byteTokens[byte]);
      if (bytes.every((byte) => byte !== undefined)) {
        for (const byte of bytes) out.push(byte);
        return;
      }
    }
    if (this.#options.unknownToken !== undefined) out.push(this.#options.unknownToken);
  }
}

/** The best ways to write the beginnings of a piece, as far as they are known. */
interface Ways {
  readonly piece: string;
  /** By where a beginning ends: how likely its best way is, where the last piece of that begins, and which it is. */
  readonly best: Float64Array;
  readonly from: Int32Array;
  readonly idAt: Int32Array;
  start: number;
  /** Where the pieces of the best way of all end. */
  readonly path: number[];
  /** Where characters begin that are no piece, and have yet to be written; -1 for none. */
  unknownFrom: number;
}

function newWays(piece: string): Ways {
  const places = piece.length + 1;
  const best = new Float64Array(places).fill(-Infinity);
  best[0] = 0;
  const [from, idAt] = [new Int32Array(places).fill(-1), new Int32Array(places).fill(-1)];
  return { piece, best, from, idAt, start: 0, path: [], unknownFrom: -1 };
}
