import type { Work } from '../../collections/drained.js';
import { PART_UNITS } from './parts.js';

/** A model's knowledge of two neighbouring symbols of the text that is being merged. */
export interface Merger {
  /** Lower merges first; -1: these two never merge. `left` and `right` are positions, as given to `mergeAll`. */
  rank(left: number, right: number): number;
  /** Makes the symbol at `left` the two together; `right` is gone afterwards. */
  merge(left: number, right: number): void;
}

/** Positions below this fit, with a rank above them, into the integers that a double holds exactly. */
const POSITIONS = 2 ** 30;

/**
 * Merges neighbouring symbols, the lowest rank first and the leftmost of equal ranks, until nothing merges any more:
 * the loop of byte-pair encoding, in O(n log n) for n symbols. Buffers are kept between calls.
 */
export class MergeQueue {
  #previous = new Int32Array(64);
  #next = new Int32Array(64);
  #heap = new Float64Array(128);
  #size = 0;

  /** @returns the positions of the symbols that are left, in order: a view that is valid until the next call */
  mergeAll(count: number, merger: Merger): Int32Array {
    this.#begin(count);
    this.#offerAll(0, count - 1, merger);
    this.#merge(POSITIONS, merger);
    return this.#left(count);
  }

  /** The same, stopping on its way; no other call may come between. */
  *mergeInParts(count: number, merger: Merger): Work<Int32Array> {
    this.#begin(count);
    for (let from = 0; from < count - 1; from += PART_UNITS) {
      this.#offerAll(from, Math.min(from + PART_UNITS, count - 1), merger);
      yield;
    }
    while (this.#merge(PART_UNITS, merger)) yield;
    return this.#left(count);
  }

  #begin(count: number): void {
    if (this.#next.length < count) {
      this.#previous = new Int32Array(count * 2);
      this.#next = new Int32Array(count * 2);
    }
    const previous = this.#previous;
    const next = this.#next;
    this.#size = 0;
    for (let i = 0; i < count; i++) {
      previous[i] = i - 1;
      next[i] = i + 1 < count ? i + 1 : -1;
    }
  }

  #offerAll(from: number, to: number, merger: Merger): void {
    for (let i = from; i < to; i++) this.#offer(i, merger.rank(i, i + 1));
  }

  /** Takes up to `most` entries. @returns whether there may be more */
  #merge(most: number, merger: Merger): boolean {
    const previous = this.#previous;
    const next = this.#next;
    for (let taken = 0; this.#size > 0; taken++) {
      if (taken >= most) return true;
      const entry = this.#pop();
      const left = entry % POSITIONS;
      const right = next[left] ?? -1;
      // Entries go stale when either symbol was merged since; a symbol that is gone has -2 as its successor.
      if (right < 0 || merger.rank(left, right) !== Math.floor(entry / POSITIONS)) continue;
      merger.merge(left, right);
      const after = next[right] ?? -1;
      next[left] = after;
      next[right] = -2;
      if (after >= 0) {
        previous[after] = left;
        this.#offer(left, merger.rank(left, after));
      }
      const before = previous[left] ?? -1;
      if (before >= 0) this.#offer(before, merger.rank(before, left));
    }
    return false;
  }

  /** Every position that is left is at least its index in the result: the list is written over `previous`. */
  #left(count: number): Int32Array {
    const previous = this.#previous;
    const next = this.#next;
    let left = 0;
    for (let i = count > 0 ? 0 : -1; i >= 0; i = next[i] ?? -1) previous[left++] = i;
    return previous.subarray(0, left);
  }

  #offer(position: number, rank: number): void {
    if (rank < 0) return;
    if (this.#size === this.#heap.length) {
      const larger = new Float64Array(this.#size * 2);
      larger.set(this.#heap);
      this.#heap = larger;
    }
    const heap = this.#heap;
    const entry = rank * POSITIONS + position;
    let at = this.#size++;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      const above = heap[parent] ?? 0;
      if (above <= entry) break;
      heap[at] = above;
      at = parent;
    }
    heap[at] = entry;
  }

  #pop(): number {
    const heap = this.#heap;
    const top = heap[0] ?? 0;
    const last = heap[--this.#size] ?? 0;
    const size = this.#size;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= size) break;
      if (child + 1 < size && (heap[child + 1] ?? 0) < (heap[child] ?? 0)) child++;
      const below = heap[child] ?? 0;
      if (below >= last) break;
      heap[at] = below;
      at = child;
    }
    heap[at] = last;
    return top;
  }
}
