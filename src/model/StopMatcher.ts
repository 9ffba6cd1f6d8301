/** What a push may give to the reader. */
export interface StopMatch {
  /** Text that can no longer be part of a stop string. */
  readonly text: string;
  /** A stop string has been found; it begins where `text` ends. Nothing may be pushed afterwards. */
  readonly stopped: boolean;
}

/** A state of the automaton: what has been read ends in this prefix of a stop string, and in no longer one. */
interface State {
  readonly next: Map<number, number>;
  readonly depth: number;
  /** State of the longest proper suffix that is a prefix of a stop string. */
  fallback: number;
  /** Length of the longest stop string that the text read so far ends in; 0 if none. */
  found: number;
}

/**
 * Ends a stream of text at the first occurrence of any stop string, wherever the pieces are cut. The first occurrence
 * is the one that begins earliest. Text is held back only while it could be the beginning of one, and each character is
 * looked at once (Aho and Corasick's automaton), however many stop strings there are.
 */
export class StopMatcher {
  readonly #states: State[] = [{ next: new Map(), depth: 0, fallback: 0, found: 0 }];
  #state = 0;
  #held = '';
  /** Where in `#held` the earliest occurrence that is known begins; -1: none. */
  #match = -1;

  /** @param stops empty ones are ignored */
  constructor(stops: readonly string[]) {
    for (const stop of stops) this.#add(stop);
    this.#link();
  }

  push(piece: string): StopMatch {
    if (this.#states.length === 1) return { text: piece, stopped: false };
    const before = this.#held.length;
    this.#held += piece;
    for (let i = 0; i < piece.length; i++) {
      const state = this.#advance(piece.charCodeAt(i));
      const end = before + i + 1;
      if (state.found > 0) {
        const start = end - state.found;
        if (this.#match < 0 || start < this.#match) this.#match = start;
      }
      // What is still open begins here. A match is the first if nothing that began before it can still become one.
      if (this.#match >= 0 && end - state.depth >= this.#match) return { text: this.#stop(), stopped: true };
    }
    if (this.#match >= 0) return { text: '', stopped: false };
    const safe = this.#held.length - this.#current.depth;
    const text = this.#held.slice(0, safe);
    this.#held = this.#held.slice(safe);
    return { text, stopped: false };
  }

  /**
   * The text has ended: a stop string that began after an unfinished one counts now, and what was held back is
   * released.
   */
  end(): StopMatch {
    if (this.#match >= 0) return { text: this.#stop(), stopped: true };
    const text = this.#held;
    this.#held = '';
    this.#state = 0;
    return { text, stopped: false };
  }

  #stop(): string {
    const text = this.#held.slice(0, this.#match);
    this.#held = '';
    this.#match = -1;
    this.#state = 0;
    return text;
  }

  get #current(): State {
    return this.#at(this.#state);
  }

  #at(index: number): State {
    const state = this.#states[index];
    if (state === undefined) throw new RangeError(`no state ${index}`);
    return state;
  }

  #advance(unit: number): State {
    for (;;) {
      const next = this.#current.next.get(unit);
      if (next !== undefined) this.#state = next;
      else if (this.#state !== 0) {
        this.#state = this.#current.fallback;
        continue;
      }
      return this.#current;
    }
  }

  #add(stop: string): void {
    let index = 0;
    for (let i = 0; i < stop.length; i++) {
      const { next, depth } = this.#at(index);
      const unit = stop.charCodeAt(i);
      let child = next.get(unit);
      if (child === undefined) {
        child = this.#states.length;
        this.#states.push({ next: new Map(), depth: depth + 1, fallback: 0, found: 0 });
        next.set(unit, child);
      }
      index = child;
    }
    if (index !== 0) this.#at(index).found = stop.length;
  }

  /** Breadth first, so that a state's fallback is finished before it. */
  #link(): void {
    const queue = [0];
    for (let head = 0; head < queue.length; head++) {
      const index = queue[head] ?? 0;
      const state = this.#at(index);
      for (const [unit, child] of state.next) {
        queue.push(child);
        if (index === 0) continue;
        let fallback = state.fallback;
        while (fallback !== 0 && !this.#at(fallback).next.has(unit)) fallback = this.#at(fallback).fallback;
        const target = this.#at(child);
        target.fallback = this.#at(fallback).next.get(unit) ?? 0;
        if (target.found === 0) target.found = this.#at(target.fallback).found;
      }
    }
  }
}
