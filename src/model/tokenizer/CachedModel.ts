import type { TokenModel } from './TokenModel.js';

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

  encode(piece: string, out: number[]): void {
    if (piece.length > LONGEST_PIECE) {
      this.#model.encode(piece, out);
      return;
    }
    let ids = this.#young.get(piece);
    if (ids === undefined) {
      ids = this.#old.get(piece);
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
    }
    for (const id of ids) out.push(id);
  }
}
