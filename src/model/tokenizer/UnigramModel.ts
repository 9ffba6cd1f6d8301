import { byteTokenName } from './BpeModel.js';
import type { Guard } from './Guard.js';
import type { TokenModel } from './TokenModel.js';
import { Trie } from './Trie.js';

export interface UnigramOptions {
  /** Piece and its log-probability; the index is the id. */
  readonly pieces: readonly (readonly [piece: string, score: number])[];
  readonly unknownToken: number | undefined;
  readonly byteFallback: boolean;
  /** What looking for long pieces takes its steps from. */
  readonly guard?: Guard;
}

/** What an unknown character costs on top of the least likely piece. */
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
  readonly #unknownScore: number;
  readonly #vocabulary = new Map<string, number>();
  readonly #utf8 = new TextEncoder();

  constructor(options: UnigramOptions) {
    this.#options = options;
    const units = options.pieces.reduce((sum, [piece]) => sum + piece.length, 0);
    this.#trie = new Trie(units);
    this.#idOf = new Int32Array(units + 1).fill(-1);
    let least = Infinity;
    options.pieces.forEach(([piece, score], id) => {
      least = Math.min(least, score);
      this.#vocabulary.set(piece, id);
      let node = 0;
      for (let i = 0; i < piece.length; i++) node = this.#trie.grow(node, piece.charCodeAt(i));
      this.#idOf[node] = id;
    });
    this.#unknownScore = least - UNKNOWN_PENALTY;
  }

  encode(piece: string, out: number[]): void {
    const { pieces } = this.#options;
    const size = piece.length;
    const best = new Float64Array(size + 1).fill(-Infinity);
    const from = new Int32Array(size + 1).fill(-1);
    const idAt = new Int32Array(size + 1).fill(-1);
    best[0] = 0;
    const steps = this.#options.guard?.steps;
    for (let start = 0; start < size;) {
      const step = (piece.codePointAt(start) ?? 0) > 0xffff ? 2 : 1;
      const score = best[start] ?? 0;
      let single = false;
      let node = 0;
      let walked = 0;
      for (let end = start; end < size;) {
        walked += 1;
        node = this.#trie.child(node, piece.charCodeAt(end++));
        if (node < 0) break;
        const id = this.#idOf[node] ?? -1;
        if (id < 0) continue;
        if (end === start + step) single = true;
        const candidate = score + (pieces[id]?.[1] ?? 0);
        if (from[end] === -1 || candidate > (best[end] ?? 0)) {
          best[end] = candidate;
          from[end] = start;
          idAt[end] = id;
        }
      }
      steps?.take(walked);
      const end = start + step;
      if (!single && (from[end] === -1 || score + this.#unknownScore > (best[end] ?? 0))) {
        best[end] = score + this.#unknownScore;
        from[end] = start;
        idAt[end] = -1;
      }
      start = end;
    }
    const path: number[] = [];
    for (let end = size; end > 0; end = from[end] ?? 0) path.push(end);
    path.reverse();
    let unknownFrom = -1;
    let start = 0;
    for (const end of path) {
      const id = idAt[end] ?? -1;
      const known = id >= 0 && id !== this.#options.unknownToken;
      if (known) {
        if (unknownFrom >= 0) this.#emitUnknown(piece.slice(unknownFrom, start), out);
        unknownFrom = -1;
        out.push(id);
      } else if (unknownFrom < 0) unknownFrom = start;
      start = end;
    }
    if (unknownFrom >= 0) this.#emitUnknown(piece.slice(unknownFrom), out);
  }

  /** Neighbouring unknown characters are one unknown token, unless there are tokens for all their bytes. */
  #emitUnknown(text: string, out: number[]): void {
    if (this.#options.byteFallback) {
      const bytes = Array.from(this.#utf8.encode(text), (byte) => this.#vocabulary.get(byteTokenName(byte)));
      if (bytes.every((byte) => byte !== undefined)) {
        for (const byte of bytes) out.push(byte);
        return;
      }
    }
    if (this.#options.unknownToken !== undefined) out.push(this.#options.unknownToken);
  }
}
